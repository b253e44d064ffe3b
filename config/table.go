package config

import (
	"math"
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
var table = slices.Concat(peerOptions(), logOptions(), apiOptions(), ironicOptions(), inspectionOptions(),
	firewallOptions(), floatingIPOptions(), raftOptions(), doctorOptions(), backupOptions(), failoverOptions(),
	leaseOptions(), electorOptions(), eventOptions(), haconfigOptions())

// Options returns the table: every option there is, in the order of the
// template. The slice is the caller's.
func Options() []Option { return slices.Clone(table) }

func peerOptions() []Option {
	return []Option{
		{Key: "name", Change: AtJoin, Extent: OneHost, rule: hostName(), field: func(c *Config) any { return &c.Name },
			Help: "What people call this peer. Default: the host name."},
		{Key: "data_dir", Change: AtRestart, Extent: OneHost, Default: "/var/lib/trivet", rule: absolutePath(maxText),
			field: func(c *Config) any { return &c.DataDir },
			Help:  "Log, snapshots and certificate of this peer. On a disk of its own it commits faster."},
		{Key: "socket", Change: AtRestart, Extent: OneHost, Default: "/run/trivet/trivet.sock", rule: absolutePath(107),
			field: func(c *Config) any { return &c.Socket },
			Help:  "Unix socket for the commands on this host; it answers without quorum too."},

		{Key: "cluster.listen", Change: AtRestart, Extent: OneHost, Default: ":7350", rule: listenAddress(),
			field: func(c *Config) any { return &c.Cluster.Listen },
			Help:  "Where this peer listens for the others."},
		{Key: "cluster.advertise", Change: AtRestart, Extent: OneHost, rule: orEmpty(advertiseAddress()),
			field: func(c *Config) any { return &c.Cluster.Advertise },
			Help:  "Where the others reach this peer, if that is not the address it finds itself."},
		{Key: "gossip.listen", Change: AtRestart, Extent: OneHost, Default: ":7351", rule: listenAddress(),
			field: func(c *Config) any { return &c.Gossip.Listen },
			Help:  "Where this peer listens for gossip, TCP and UDP."},
		{Key: "gossip.advertise", Change: AtRestart, Extent: OneHost, rule: orEmpty(advertiseAddress()),
			field: func(c *Config) any { return &c.Gossip.Advertise },
			Help:  "Where the others reach the gossip of this peer, if that is not the address it finds itself."},
	}
}

func ironicOptions() []Option {
	return append([]Option{
		{Key: "ironic.endpoint", Change: AtReload, Extent: AllHosts, Default: "http://127.0.0.1:6385", rule: webURL(),
			field: func(c *Config) any { return &c.Ironic.Endpoint },
			Help:  "URL of the bare-metal API. With keystone, unless it is written, the catalogue's: the internal one, else the public one."},
		{Key: "ironic.ramdisk_endpoint", Change: AtReload, Extent: AllHosts, rule: orEmpty(webURL()),
			field: func(c *Config) any { return &c.Ironic.RamdiskEndpoint },
			Help: "URL of the bare-metal API that takes what ramdisks send, where ironic.endpoint answers it with 403 ([api] enable_ramdisk_endpoints = False). " +
				"User and password do not go there. Empty: ironic.endpoint."},
		{Key: "ironic.auth_type", Change: AtReload, Extent: AllHosts, Default: "none",
			rule: oneOf("none", "http_basic", "keystone"), field: func(c *Config) any { return &c.Ironic.AuthType },
			Help: "How to log in there: none, http_basic, or keystone, by password at Keystone."},
		{Key: "ironic.username", Change: AtReload, Extent: AllHosts, rule: anyText(),
			field: func(c *Config) any { return &c.Ironic.Username },
			Help:  "User name for http_basic and keystone."},
		{Key: "ironic.password", Change: AtReload, Extent: AllHosts, rule: anyText(),
			field: func(c *Config) any { return &c.Ironic.Password },
			Help:  "Password of that user. Quote it, or write password_file instead. As a flag every user of the host sees it in ps."},
		{Key: "ironic.password_file", Change: AtReload, Extent: MostHosts, rule: orEmpty(absolutePath(maxText)),
			field: func(c *Config) any { return &c.Ironic.PasswordFile },
			Help:  "File that holds the password and nothing else. It is read at every login, so that a new password needs no restart."},
		{Key: "ironic.auth_url", Change: AtReload, Extent: AllHosts, rule: orEmpty(webURL()),
			field: func(c *Config) any { return &c.Ironic.Keystone.AuthURL },
			Help:  "URL of Keystone, with or without /v3."},
		{Key: "ironic.project_name", Change: AtReload, Extent: AllHosts, rule: anyText(),
			field: func(c *Config) any { return &c.Ironic.Keystone.Project },
			Help:  "Keystone project in which the user may use Ironic."},
		{Key: "ironic.user_domain_name", Change: AtReload, Extent: AllHosts, Default: "Default", rule: anyText(),
			field: func(c *Config) any { return &c.Ironic.Keystone.UserDomain },
			Help:  "Keystone domain of the user."},
		{Key: "ironic.project_domain_name", Change: AtReload, Extent: AllHosts, Default: "Default", rule: anyText(),
			field: func(c *Config) any { return &c.Ironic.Keystone.ProjectDomain },
			Help:  "Keystone domain of the project."},
		{Key: "ironic.region", Change: AtReload, Extent: AllHosts, rule: anyText(),
			field: func(c *Config) any { return &c.Ironic.Keystone.Region },
			Help:  "Region of Ironic in Keystone's catalogue, where that has several."},
		{Key: "ironic.retries", Change: AtReload, Extent: MostHosts, Default: "5", rule: number(0, 100),
			field: func(c *Config) any { return &c.Ironic.Retries },
			Help:  "How often a call that failed is tried again."},
		{Key: "ironic.retry_interval", Change: AtReload, Extent: MostHosts, Default: "1s", rule: between(0, time.Minute),
			field: func(c *Config) any { return &c.Ironic.RetryInterval },
			Help:  "Pause before a call is tried again."},
		{Key: "ironic.timeout", Change: AtReload, Extent: MostHosts, Default: "30s",
			rule: between(100*time.Millisecond, 10*time.Minute), field: func(c *Config) any { return &c.Ironic.Timeout },
			Help: "How long one try of a call may take."},
	}, clientTLSOptions("ironic.", "Ironic's and Keystone's", func(c *Config) *ClientTLS { return &c.Ironic.TLS })...)
}

// Bounds that the log has for what these two become in it (introspection.MaxTime
// and introspection.MaxGap): beyond them no introspection could be started.
const (
	longestInspection = 7 * 24 * time.Hour
	longestThrottle   = time.Hour
)

func inspectionOptions() []Option {
	return append([]Option{
		{Key: "inspection.timeout", Change: AtReload, Extent: AllHosts, Default: "900s", rule: upTo(longestInspection),
			field: func(c *Config) any { return &c.Inspection.Timeout },
			Help:  "How long an introspection may take; then it ends in error. Above 900s is accepted with a warning, not refused: machines with much memory take longer to boot, and until the end one thing alone differs, that the node stays on the whitelist and is not started again."},
		{Key: "inspection.clean_up_period", Change: AtReload, Extent: AllHosts, Default: "30s", rule: positive(),
			field: func(c *Config) any { return &c.Inspection.CleanUpPeriod },
			Help:  "How often the leader looks for introspections that timed out and for nodes that Ironic no longer has."},
		{Key: "inspection.reboot_throttle", Change: AtReload, Extent: AllHosts, Default: "0s",
			rule: between(0, longestThrottle), field: func(c *Config) any { return &c.Inspection.RebootThrottle },
			Help: "Least time between two nodes that are powered on, over all peers, but for those that a busy Ironic made wait, which are tried again in between. 0s: none."},
		{Key: "inspection.introspection_delay", Change: AtReload, Extent: AllHosts, AliasOf: "inspection.reboot_throttle",
			Default: "0s", rule: between(0, longestThrottle), field: func(c *Config) any { return &c.Inspection.RebootThrottle },
			Help: "The original's name for reboot_throttle. Write one of the two."},
		{Key: "inspection.queue_get_timeout", Change: AtReload, Extent: MostHosts, Default: "3s", rule: positive(),
			field: func(c *Config) any { return &c.Inspection.QueueGetTimeout },
			Help:  "How long a worker waits for a request before it looks around."},
		{Key: "inspection.report_expiry", Change: AtReload, Extent: AllHosts, Default: "86400s", rule: notNegative(),
			field: func(c *Config) any { return &c.Inspection.ReportExpiry },
			Help:  "How long a finished introspection and its data are kept. 0s: for ever."},
		{Key: "inspection.workers", Change: AtReload, Extent: MostHosts, Default: "0", rule: number(0, 1024),
			field: func(c *Config) any { return &c.Inspection.Workers },
			Help:  "How many requests this peer works on at once. 0: one a CPU."},
		{Key: "inspection.can_manage_boot", Change: AtReload, Extent: AllHosts, Default: "true",
			field: func(c *Config) any { return &c.Inspection.CanManageBoot },
			Help:  "Whether a client may leave power and boot device to Trivet."},
		{Key: "inspection.store_data", Change: AtReload, Extent: AllHosts, Default: "true",
			field: func(c *Config) any { return &c.Inspection.StoreData },
			Help:  "Whether the data of ramdisks is kept."},
		{Key: "inspection.api_max_limit", Change: AtReload, Extent: AllHosts, Default: "1000", rule: number(1, math.MaxInt32),
			field: func(c *Config) any { return &c.Inspection.APIMaxLimit },
			Help:  "Most records on one page of a list."},
		{Key: "inspection.continue_inspection", Change: AtReload, Extent: AllHosts, Default: ContinueOff,
			rule: oneOf(ContinueOff, ContinueNative, ContinueRelay), field: func(c *Config) any {
				return &c.Inspection.ContinueInspection
			},
			Help: "What POST /v1/continue_inspection does, which is where Ironic's own inspection lets ramdisks call: nothing (off), process it here (native), or keep it and hand it on to Ironic (relay)."},
		{Key: "inspection.ipmi_address_fields", Change: AtReload, Extent: AllHosts,
			Default: "redfish_address,ilo_address,drac_host,drac_address,ibmc_address",
			rule:    names(), field: func(c *Config) any { return &c.Inspection.IPMIAddressFields },
			Help: "Keys of a node's driver_info, after ipmi_address, that may hold the address of its BMC. The first that is not empty counts."},
	}, slices.Concat(processingOptions(), discoveryOptions(), hookOptions())...)
}

func processingOptions() []Option {
	return []Option{
		{Key: "inspection.processing.processing_hooks", Change: AtReload, Extent: AllHosts,
			Default: "ramdisk_error,root_disk_selection,scheduler,validate_interfaces,capabilities,pci_devices",
			rule:    names(), field: func(c *Config) any { return &c.Inspection.Processing.Hooks },
			Help: "Which hooks see the data, in this order."},
		{Key: "inspection.processing.add_ports", Change: AtReload, Extent: AllHosts, Default: "pxe",
			rule: oneOf("pxe", "active", "all", "disabled"), field: func(c *Config) any {
				return &c.Inspection.Processing.AddPorts
			},
			Help: "Which interfaces become ports in Ironic: the one that booted (pxe), those with an address (active), all, or none (disabled)."},
		{Key: "inspection.processing.keep_ports", Change: AtReload, Extent: AllHosts, Default: "all",
			rule: oneOf("all", "present", "added"), field: func(c *Config) any { return &c.Inspection.Processing.KeepPorts },
			Help: "Which ports in Ironic stay: all, those the ramdisk saw (present), or those of add_ports (added)."},
		{Key: "inspection.processing.overwrite_existing", Change: AtReload, Extent: AllHosts, Default: "true",
			field: func(c *Config) any { return &c.Inspection.Processing.OverwriteExisting },
			Help:  "Whether properties of the node that already have a value are overwritten."},
		{Key: "inspection.processing.update_pxe_enabled", Change: AtReload, Extent: AllHosts, Default: "true",
			field: func(c *Config) any { return &c.Inspection.Processing.UpdatePXEEnabled },
			Help:  "Whether pxe_enabled of existing ports is set by which interface booted; with overwrite_existing alone."},
		{Key: "inspection.processing.disk_partitioning_spacing", Change: AtReload, Extent: AllHosts, Default: "true",
			field: func(c *Config) any { return &c.Inspection.Processing.DiskPartitioningSpacing },
			Help:  "Whether local_gb leaves one GiB of the root disk for partitions."},
		{Key: "inspection.processing.power_off", Change: AtReload, Extent: AllHosts, Default: "true",
			field: func(c *Config) any { return &c.Inspection.Processing.PowerOff },
			Help:  "Whether a node that Trivet powered on is powered off at the end."},
		{Key: "inspection.processing.node_not_found_hook", Change: AtReload, Extent: AllHosts,
			rule: oneOf("", "enroll", "example"), field: func(c *Config) any {
				return &c.Inspection.Processing.NodeNotFoundHook
			},
			Help: "What happens to an unknown machine: refused, enrolled in Ironic (enroll), or refused with a line in the log (example)."},
		{Key: "inspection.processing.permit_active_introspection", Change: AtReload, Extent: AllHosts, Default: "false",
			field: func(c *Config) any { return &c.Inspection.Processing.PermitActiveIntrospection },
			Help:  "Whether a machine in use (provision state active or rescue) may send data. Its power and its ports stay as they are."},
		{Key: "inspection.processing.ramdisk_logs_dir", Change: AtReload, Extent: MostHosts,
			rule: orEmpty(absolutePath(maxText)), field: func(c *Config) any { return &c.Inspection.Processing.RamdiskLogsDir },
			Help: "Where the logs of ramdisks are kept, on the peer that received them. Empty: nowhere."},
		{Key: "inspection.processing.ramdisk_logs_filename_format", Change: AtReload, Extent: MostHosts,
			Default: "{uuid}_{dt:%Y%m%d-%H%M%S.%f}.tar.gz", rule: fileNameFormat(), field: func(c *Config) any {
				return &c.Inspection.Processing.RamdiskLogsFilenameFormat
			},
			Help: "Their file names: {uuid}, {bmc}, {mac} (of the interface that booted) and {dt:…}, the time by strftime's letters."},
		{Key: "inspection.processing.ramdisk_logs_quota", Change: AtReload, Extent: MostHosts, Default: "1024",
			rule: number(64, 1<<20), field: func(c *Config) any { return &c.Inspection.Processing.RamdiskLogsQuota },
			Help: "How many MiB they take at most. The oldest go first; of these the logs of unknown machines, which have a quarter."},
		{Key: "inspection.processing.always_store_ramdisk_logs", Change: AtReload, Extent: AllHosts, Default: "false",
			field: func(c *Config) any { return &c.Inspection.Processing.AlwaysStoreRamdiskLogs },
			Help:  "Whether logs are kept of introspections that went well, too."},
	}
}

func discoveryOptions() []Option {
	return []Option{
		{Key: "inspection.discovery.enroll_node_driver", Change: AtReload, Extent: AllHosts, Default: "fake-hardware",
			rule: driverName(), field: func(c *Config) any { return &c.Inspection.Discovery.EnrollNodeDriver },
			Help: "Driver of the nodes that are made."},
		{Key: "inspection.discovery.enabled_bmc_address_version", Change: AtReload, Extent: AllHosts, Default: "4,6",
			rule: addressVersions(), field: func(c *Config) any { return &c.Inspection.Discovery.EnabledBMCAddressVersion },
			Help: "Which addresses of a BMC are used, and which first: 4, 6."},
		{Key: "inspection.discovery.enroll_node_fields", Change: AtReload, Extent: AllHosts,
			rule: pairs("NAME:VALUE", isFieldPair), field: func(c *Config) any {
				return &c.Inspection.Discovery.EnrollNodeFields
			},
			Help: "Further fields of the nodes that are made, as in management_interface:noop."},
	}
}

func hookOptions() []Option {
	return []Option{
		{Key: "inspection.capabilities.boot_mode", Change: AtReload, Extent: AllHosts, Default: "false",
			field: func(c *Config) any { return &c.Inspection.HookOptions.Capabilities.BootMode },
			Help:  "Whether the boot mode (uefi, bios) becomes a capability."},
		{Key: "inspection.capabilities.cpu_flags", Change: AtReload, Extent: AllHosts,
			Default: "vmx:cpu_vt,svm:cpu_vt,aes:cpu_aes,pse:cpu_hugepages,pdpe1gb:cpu_hugepages_1g,smx:cpu_txt",
			rule:    pairs("FLAG:CAPABILITY", isFieldPair), field: func(c *Config) any {
				return &c.Inspection.HookOptions.Capabilities.CPUFlags
			},
			Help: "Which flags of the CPU become which capabilities."},
		{Key: "inspection.pci_devices.alias", Change: AtReload, Extent: AllHosts,
			rule: pairs("VENDOR:PRODUCT:NAME", isPCIAlias), field: func(c *Config) any {
				return &c.Inspection.HookOptions.PCIAlias
			},
			Help: "Which PCI devices are counted as which capability, as in 8086:1572:x710."},
		{Key: "inspection.port_physnet.cidr_map", Change: AtReload, Extent: AllHosts, rule: pairs("CIDR:NETWORK", isCIDRPair),
			field: func(c *Config) any { return &c.Inspection.HookOptions.CIDRMap },
			Help:  "Which addresses of a machine belong to which physical network, as in 10.1.0.0/16:leaf1."},
		{Key: "inspection.extra_hardware.strict", Change: AtReload, Extent: AllHosts, Default: "false",
			field: func(c *Config) any { return &c.Inspection.HookOptions.ExtraHardwareStrict },
			Help:  "Whether all extra data is dropped when one item of it is malformed, or that item alone."},
		{Key: "inspection.accelerators.known_devices", Change: AtReload, Extent: MostHosts,
			rule: orEmpty(absolutePath(maxText)), field: func(c *Config) any {
				return &c.Inspection.HookOptions.KnownAccelerators
			},
			Help: "File (YAML) of the PCI devices that are accelerators. Empty: those that Trivet knows."},
	}
}

func raftOptions() []Option {
	return []Option{
		{Key: "raft.timing", Change: AtRestart, Extent: AllHosts, Default: "normal", rule: oneOf("fast", "normal", "slow"),
			field: func(c *Config) any { return &c.Raft.Timing },
			Help:  "How soon a silent leader is replaced: 200 ms (fast), 300 ms (normal) or 1 s (slow) of silence, up to twice that, and the election. The same on all peers; slow for hosts far apart or short of CPU, fast for hosts that do nothing else."},
		{Key: "raft.log_store", Change: AtRestart, Extent: MostHosts, Default: "bolt", rule: oneOf("bolt", "wal"),
			field: func(c *Config) any { return &c.Raft.LogStore },
			Help:  "How entries of the log reach the disk: at once in bolt, or first in a write-ahead log of 4 MiB, which waits for the disk once instead of twice."},
		{Key: "raft.finalize_after", Change: AtRestart, Extent: AllHosts, Default: "0s", rule: notNegative(),
			field: func(c *Config) any { return &c.Raft.FinalizeAfter },
			Help:  "For how long all hosts must have run a release before the leader finalizes the upgrade by itself; no host goes back after that. Leave it 0: an operator does, with 'trivet upgrade finalize'."},
	}
}

// Lookup finds the option with the key.
func Lookup(key string) (Option, bool) {
	for _, o := range table {
		if o.Key == key {
			return o, true
		}
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
