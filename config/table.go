package config

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Section is a group of options: a mapping in the file.
type Section struct {
	Name string // path, as "inspection.processing"; "" for the keys at the top
	Help string // one sentence or two
}

// Sections lists the sections in the order of the template. Those without
// options are names that later versions fill; they may stand in the file, empty.
func Sections() []Section {
	return []Section{
		{"", "This peer."},
		{"log", "What this peer logs of itself. The replicated log is in section raft."},
		{"api", "The REST API."},
		{"api.tls", "TLS on the API. Off while nothing is written."},
		{"api.keystone", "Who asks Keystone about callers, and which of its roles may do what: auth_strategy keystone."},
		{"cluster", "Between peers: mutual TLS on one port."},
		{"gossip", "Between peers: who is there."},
		{"ironic", "How this peer reaches Ironic."},
		{"inspection", "Introspection. The names are ironic-inspector's."},
		{"inspection.processing", "What is done with the data that a ramdisk sends."},
		{"inspection.discovery", "How node_not_found_hook enroll makes nodes."},
		{"inspection.capabilities", "The hook of that name."},
		{"inspection.pci_devices", "The hook of that name."},
		{"inspection.port_physnet", "The hook physnet_cidr_map."},
		{"inspection.extra_hardware", "The hook of that name."},
		{"inspection.accelerators", "The hook of that name."},
		{"firewall", "The PXE filter of this host."},
		{"floating_ip", "An address that the leader holds. Off while empty."},
		{"raft", "The replicated log."},
		{"doctor", "Where 'trivet doctor' looks on this host."},
		{"backup", "Snapshots that this peer takes by itself. Off while no directory is written."},
		{"failover", "Failover of Kubernetes nodes. Off while mode is empty."},
		{"lease", "Leases, values and groups for other programs. Off unless enabled."},
		{"elector", "Who leads, for other programs: what leader-elector answered. Off while nothing is listened on."},
		{"events", "Who is sent the events of the cluster. Off while no receiver is written."},
		{"haconfig", "High availability of deployed components: the admission webhook. Off while it names no cluster."},
	}
}

// table holds every option; nothing changes it.
var table = placed(slices.Concat(peerOptions, logOptions, apiOptions, apiKeystoneOptions,
	clientTLSOptions("api.keystone.", "Keystone's"), ironicOptions, clientTLSOptions("ironic.", "Ironic's and Keystone's"),
	inspectionOptions, firewallOptions, floatingIPOptions, raftOptions, doctorOptions, backupOptions, failoverOptions,
	leaseOptions, electorOptions, eventOptions, haconfigOptions))

// placed gives each row the place in a Config of the field that the tags name by its key.
func placed(rows []Option) []Option {
	places := make(map[string][]int)
	var walk func(of reflect.Type, section string, at []int)
	walk = func(of reflect.Type, section string, at []int) {
		for i := range of.NumField() {
			field, place, key := of.Field(i), append(slices.Clone(at), i), section
			tag, tagged := field.Tag.Lookup("key")
			if tagged {
				key = join(section, tag)
			}
			switch {
			case field.Type.Kind() == reflect.Struct:
				walk(field.Type, key, place)
			case tagged:
				places[key] = place
			}
		}
	}
	walk(reflect.TypeFor[Config](), "", nil)
	for i, o := range rows {
		if rows[i].place = places[cmp.Or(o.AliasOf, o.Key)]; rows[i].place == nil {
			panic("config: no field has the key " + o.Key) // a slip in the table; its test finds it
		}
	}
	return rows
}

// Options returns the table: every option there is, in the order of the
// template. The slice is the caller's.
func Options() []Option { return slices.Clone(table) }

var peerOptions = []Option{
	{Key: "name", Change: AtJoin, Extent: OneHost, rule: hostName(),
		Help: "What people call this peer. Default: the host name."},
	{Key: "data_dir", Change: AtRestart, Extent: OneHost, Default: "/var/lib/trivet", rule: absolutePath(maxText),
		Help: "Log, snapshots and certificate of this peer. On a disk of its own it commits faster."},
	{Key: "socket", Change: AtRestart, Extent: OneHost, Default: "/run/trivet/trivet.sock", rule: absolutePath(107),
		Help: "Unix socket for the commands on this host; it answers without quorum too."},

	{Key: "cluster.listen", Change: AtRestart, Extent: OneHost, Default: ":7350", rule: listenAddress(),
		Help: "Where this peer listens for the others."},
	{Key: "cluster.advertise", Change: AtRestart, Extent: OneHost, rule: orEmpty(advertiseAddress()),
		Help: "Where the others reach this peer, if that is not the address it finds itself."},
	{Key: "gossip.listen", Change: AtRestart, Extent: OneHost, Default: ":7351", rule: listenAddress(),
		Help: "Where this peer listens for gossip, TCP and UDP."},
	{Key: "gossip.advertise", Change: AtRestart, Extent: OneHost, rule: orEmpty(advertiseAddress()),
		Help: "Where the others reach the gossip of this peer, if that is not the address it finds itself."},
}

var ironicOptions = []Option{
	{Key: "ironic.endpoint", Change: AtReload, Extent: AllHosts, Default: "http://127.0.0.1:6385", rule: webURL(),
		Help: "URL of the bare-metal API. With keystone, unless it is written, the catalogue's: the internal one, else the public one."},
	{Key: "ironic.ramdisk_endpoint", Change: AtReload, Extent: AllHosts, rule: orEmpty(webURL()),
		Help: "URL of the bare-metal API that takes what ramdisks send, where ironic.endpoint answers it with 403 ([api] enable_ramdisk_endpoints = False). " +
			"User and password do not go there. Empty: ironic.endpoint."},
	{Key: "ironic.auth_type", Change: AtReload, Extent: AllHosts, Default: "none",
		rule: oneOf("none", "http_basic", "keystone"),
		Help: "How to log in there: none, http_basic, or keystone, by password at Keystone."},
	{Key: "ironic.username", Change: AtReload, Extent: AllHosts, rule: anyText(),
		Help: "User name for http_basic and keystone."},
	{Key: "ironic.password", Change: AtReload, Extent: AllHosts, rule: anyText(),
		Help: "Password of that user. Quote it, or write password_file instead. As a flag every user of the host sees it in ps."},
	{Key: "ironic.password_file", Change: AtReload, Extent: MostHosts, rule: orEmpty(absolutePath(maxText)),
		Help: "File that holds the password and nothing else. It is read at every login, so that a new password needs no restart."},
	{Key: "ironic.auth_url", Change: AtReload, Extent: AllHosts, rule: orEmpty(webURL()),
		Help: "URL of Keystone, with or without /v3."},
	{Key: "ironic.project_name", Change: AtReload, Extent: AllHosts, rule: anyText(),
		Help: "Keystone project in which the user may use Ironic."},
	{Key: "ironic.user_domain_name", Change: AtReload, Extent: AllHosts, Default: "Default", rule: anyText(),
		Help: "Keystone domain of the user."},
	{Key: "ironic.project_domain_name", Change: AtReload, Extent: AllHosts, Default: "Default", rule: anyText(),
		Help: "Keystone domain of the project."},
	{Key: "ironic.region", Change: AtReload, Extent: AllHosts, rule: anyText(),
		Help: "Region of Ironic in Keystone's catalogue, where that has several."},
	{Key: "ironic.retries", Change: AtReload, Extent: MostHosts, Default: "5", rule: number(0, 100),
		Help: "How often a call that failed is tried again."},
	{Key: "ironic.retry_interval", Change: AtReload, Extent: MostHosts, Default: "1s", rule: between(0, time.Minute),
		Help: "Pause before a call is tried again."},
	{Key: "ironic.timeout", Change: AtReload, Extent: MostHosts, Default: "30s",
		rule: between(100*time.Millisecond, 10*time.Minute),
		Help: "How long one try of a call may take."},
}

// Bounds that the log has for what these two become in it (introspection.MaxTime
// and introspection.MaxGap): beyond them no introspection could be started.
const (
	longestInspection = 7 * 24 * time.Hour
	longestThrottle   = time.Hour
)

var inspectionOptions = []Option{
	{Key: "inspection.timeout", Change: AtReload, Extent: AllHosts, Default: "900s", rule: upTo(longestInspection),
		Help: "How long an introspection may take; then it ends in error. Above 900s is accepted with a warning, not refused: machines with much memory take longer to boot, and until the end one thing alone differs, that the node stays on the whitelist and is not started again."},
	{Key: "inspection.clean_up_period", Change: AtReload, Extent: AllHosts, Default: "30s", rule: positive(),
		Help: "How often the leader looks for introspections that timed out and for nodes that Ironic no longer has."},
	{Key: "inspection.reboot_throttle", Change: AtReload, Extent: AllHosts, Default: "0s",
		rule: between(0, longestThrottle),
		Help: "Least time between two nodes that are powered on, over all peers, but for those that a busy Ironic made wait, which are tried again in between. 0s: none."},
	{Key: "inspection.introspection_delay", Change: AtReload, Extent: AllHosts, AliasOf: "inspection.reboot_throttle",
		Default: "0s", rule: between(0, longestThrottle),
		Help: "The original's name for reboot_throttle. Write one of the two."},
	{Key: "inspection.queue_get_timeout", Change: AtReload, Extent: MostHosts, Default: "3s", rule: positive(),
		Help: "How long a worker waits for a request before it looks around."},
	{Key: "inspection.report_expiry", Change: AtReload, Extent: AllHosts, Default: "86400s", rule: notNegative(),
		Help: "How long a finished introspection and its data are kept. 0s: for ever."},
	{Key: "inspection.workers", Change: AtReload, Extent: MostHosts, Default: "0", rule: number(0, 1024),
		Help: "How many requests this peer works on at once. 0: one a CPU."},
	{Key: "inspection.can_manage_boot", Change: AtReload, Extent: AllHosts, Default: "true",
		Help: "Whether a client may leave power and boot device to Trivet."},
	{Key: "inspection.store_data", Change: AtReload, Extent: AllHosts, Default: "true",
		Help: "Whether the data of ramdisks is kept."},
	{Key: "inspection.api_max_limit", Change: AtReload, Extent: AllHosts, Default: "1000", rule: number(1, math.MaxInt32),
		Help: "Most records on one page of a list."},
	{Key: "inspection.continue_inspection", Change: AtReload, Extent: AllHosts, Default: ContinueOff,
		rule: oneOf(ContinueOff, ContinueNative, ContinueRelay),
		Help: "What POST /v1/continue_inspection does, which is where Ironic's own inspection lets ramdisks call: nothing (off), process it here (native), or keep it and hand it on to Ironic (relay)."},
	{Key: "inspection.ipmi_address_fields", Change: AtReload, Extent: AllHosts,
		Default: "redfish_address,ilo_address,drac_host,drac_address,ibmc_address", rule: names(),
		Help: "Keys of a node's driver_info, after ipmi_address, that may hold the address of its BMC. The first that is not empty counts."},
	{Key: "inspection.processing.processing_hooks", Change: AtReload, Extent: AllHosts,
		Default: "ramdisk_error,root_disk_selection,scheduler,validate_interfaces,capabilities,pci_devices", rule: names(),
		Help: "Which hooks see the data, in this order."},
	{Key: "inspection.processing.add_ports", Change: AtReload, Extent: AllHosts, Default: "pxe",
		rule: oneOf("pxe", "active", "all", "disabled"),
		Help: "Which interfaces become ports in Ironic: the one that booted (pxe), those with an address (active), all, or none (disabled)."},
	{Key: "inspection.processing.keep_ports", Change: AtReload, Extent: AllHosts, Default: "all",
		rule: oneOf("all", "present", "added"),
		Help: "Which ports in Ironic stay: all, those the ramdisk saw (present), or those of add_ports (added)."},
	{Key: "inspection.processing.overwrite_existing", Change: AtReload, Extent: AllHosts, Default: "true",
		Help: "Whether properties of the node that already have a value are overwritten."},
	{Key: "inspection.processing.update_pxe_enabled", Change: AtReload, Extent: AllHosts, Default: "true",
		Help: "Whether pxe_enabled of existing ports is set by which interface booted; with overwrite_existing alone."},
	{Key: "inspection.processing.disk_partitioning_spacing", Change: AtReload, Extent: AllHosts, Default: "true",
		Help: "Whether local_gb leaves one GiB of the root disk for partitions."},
	{Key: "inspection.processing.power_off", Change: AtReload, Extent: AllHosts, Default: "true",
		Help: "Whether a node that Trivet powered on is powered off at the end."},
	{Key: "inspection.processing.node_not_found_hook", Change: AtReload, Extent: AllHosts,
		rule: oneOf("", "enroll", "example"),
		Help: "What happens to an unknown machine: refused, enrolled in Ironic (enroll), or refused with a line in the log (example)."},
	{Key: "inspection.processing.permit_active_introspection", Change: AtReload, Extent: AllHosts, Default: "false",
		Help: "Whether a machine in use (provision state active or rescue) may send data. Its power and its ports stay as they are."},
	{Key: "inspection.processing.ramdisk_logs_dir", Change: AtReload, Extent: MostHosts,
		rule: orEmpty(absolutePath(maxText)),
		Help: "Where the logs of ramdisks are kept, on the peer that received them. Empty: nowhere."},
	{Key: "inspection.processing.ramdisk_logs_filename_format", Change: AtReload, Extent: MostHosts,
		Default: "{uuid}_{dt:%Y%m%d-%H%M%S.%f}.tar.gz", rule: fileNameFormat(),
		Help: "Their file names: {uuid}, {bmc}, {mac} (of the interface that booted) and {dt:…}, the time by strftime's letters."},
	{Key: "inspection.processing.ramdisk_logs_quota", Change: AtReload, Extent: MostHosts, Default: "1024",
		rule: number(64, 1<<20),
		Help: "How many MiB they take at most. The oldest go first; of these the logs of unknown machines, which have a quarter."},
	{Key: "inspection.processing.always_store_ramdisk_logs", Change: AtReload, Extent: AllHosts, Default: "false",
		Help: "Whether logs are kept of introspections that went well, too."},
	{Key: "inspection.discovery.enroll_node_driver", Change: AtReload, Extent: AllHosts, Default: "fake-hardware",
		rule: form("name of a driver", isDriverName, "is not the name of a driver",
			"write one of those that Ironic lists, as in ipmi or redfish"),
		Help: "Driver of the nodes that are made."},
	{Key: "inspection.discovery.enabled_bmc_address_version", Change: AtReload, Extent: AllHosts, Default: "4,6",
		rule: pairs("4 and 6, or one of them", func(item string) bool { return item == "4" || item == "6" }),
		Help: "Which addresses of a BMC are used, and which first: 4, 6."},
	{Key: "inspection.discovery.enroll_node_fields", Change: AtReload, Extent: AllHosts,
		rule: pairs("NAME:VALUE", isFieldPair),
		Help: "Further fields of the nodes that are made, as in management_interface:noop."},
	{Key: "inspection.capabilities.boot_mode", Change: AtReload, Extent: AllHosts, Default: "false",
		Help: "Whether the boot mode (uefi, bios) becomes a capability."},
	{Key: "inspection.capabilities.cpu_flags", Change: AtReload, Extent: AllHosts,
		Default: "vmx:cpu_vt,svm:cpu_vt,aes:cpu_aes,pse:cpu_hugepages,pdpe1gb:cpu_hugepages_1g,smx:cpu_txt",
		rule:    pairs("FLAG:CAPABILITY", isFieldPair),
		Help:    "Which flags of the CPU become which capabilities."},
	{Key: "inspection.pci_devices.alias", Change: AtReload, Extent: AllHosts,
		rule: pairs("VENDOR:PRODUCT:NAME", isPCIAlias),
		Help: "Which PCI devices are counted as which capability, as in 8086:1572:x710."},
	{Key: "inspection.port_physnet.cidr_map", Change: AtReload, Extent: AllHosts, rule: pairs("CIDR:NETWORK", isCIDRPair),
		Help: "Which addresses of a machine belong to which physical network, as in 10.1.0.0/16:leaf1."},
	{Key: "inspection.extra_hardware.strict", Change: AtReload, Extent: AllHosts, Default: "false",
		Help: "Whether all extra data is dropped when one item of it is malformed, or that item alone."},
	{Key: "inspection.accelerators.known_devices", Change: AtReload, Extent: MostHosts,
		rule: orEmpty(absolutePath(maxText)),
		Help: "File (YAML) of the PCI devices that are accelerators. Empty: those that Trivet knows."},
}

var raftOptions = []Option{
	{Key: "raft.timing", Change: AtRestart, Extent: AllHosts, Default: "normal", rule: oneOf("fast", "normal", "slow"),
		Help: "How soon a silent leader is replaced: 200 ms (fast), 300 ms (normal) or 1 s (slow) of silence, up to twice that, and the election. The same on all peers; slow for hosts far apart or short of CPU, fast for hosts that do nothing else."},
	{Key: "raft.log_store", Change: AtRestart, Extent: MostHosts, Default: "bolt", rule: oneOf("bolt", "wal"),
		Help: "How entries of the log reach the disk: at once in bolt, or first in a write-ahead log of 4 MiB, which waits for the disk once instead of twice."},
	{Key: "raft.finalize_after", Change: AtRestart, Extent: AllHosts, Default: "0s", rule: notNegative(),
		Help: "For how long all hosts must have run a release before the leader finalizes the upgrade by itself; no host goes back after that. Leave it 0: an operator does, with 'trivet upgrade finalize'."},
}

// Lookup finds the option with the key.
func Lookup(key string) (Option, bool) {
	if i := slices.IndexFunc(table, func(o Option) bool { return o.Key == key }); i >= 0 {
		return table[i], true
	}
	return Option{}, false
}

// canonical follows an alias to the key that carries the value.
func canonical(key string) string {
	if o, ok := Lookup(key); ok && o.AliasOf != "" {
		return o.AliasOf
	}
	return key
}

// isSection reports whether key is a mapping in the file.
func isSection(key string) bool {
	return slices.ContainsFunc(Sections(), func(s Section) bool { return s.Name == key })
}

// split cuts a path into its section and the name in it.
func split(key string) (section, name string) {
	i := strings.LastIndexByte(key, '.')
	if i < 0 {
		return "", key
	}
	return key[:i], key[i+1:]
}
