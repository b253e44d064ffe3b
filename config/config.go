package config

import (
	"fmt"
	"slices"
	"time"
)

// Config is the whole configuration of a peer. Every field has a row in the
// table, where its meaning, default and bounds are written.
type Config struct {
	Name       string     `key:"name"`
	DataDir    string     `key:"data_dir"`
	Socket     string     `key:"socket"`
	Log        Log        `key:"log"`
	API        API        `key:"api"`
	Cluster    Address    `key:"cluster"`
	Gossip     Address    `key:"gossip"`
	Ironic     Ironic     `key:"ironic"`
	Inspection Inspection `key:"inspection"`
	Firewall   Firewall   `key:"firewall"`
	FloatingIP FloatingIP `key:"floating_ip"`
	Raft       Raft       `key:"raft"`
	Doctor     Doctor     `key:"doctor"`
	Backup     Backup     `key:"backup"`
	Failover   Failover   `key:"failover"`
	HAConfig   HAConfig   `key:"haconfig"`
	Programs

	origins  map[string]Origin // of the keys whose value is not the default
	warnings Problems
}

// Programs are the sections of other programs: what they lease, ask, and are sent.
type Programs struct {
	Lease   Lease   `key:"lease"`
	Elector Elector `key:"elector"`
	Events  Events  `key:"events"`
}

// Address is where a service between peers listens and what the others are told.
type Address struct {
	Listen    string `key:"listen"`
	Advertise string `key:"advertise"` // "" means: find out
}

// Ironic is how this peer reaches Ironic.
type Ironic struct {
	Endpoint string `key:"endpoint"` // "" with keystone alone: take it from the catalogue
	// RamdiskEndpoint takes what ramdisks send, without credentials; "": Endpoint does.
	RamdiskEndpoint string `key:"ramdisk_endpoint"`
	AuthType        string `key:"auth_type"`
	Username        string `key:"username"`
	Password        Secret `key:"password"`
	PasswordFile    string `key:"password_file"` // "" unless the password stands in a file of its own
	Keystone        Keystone
	TLS             ClientTLS
	Retries         int           `key:"retries"`
	RetryInterval   time.Duration `key:"retry_interval"`
	Timeout         time.Duration `key:"timeout"`

	origins loginOrigins
}

// loginOrigins are where user and password of Ironic were written.
type loginOrigins struct{ username, password Origin }

// Login names the options that hold the user and the password, and where they
// were written, for the message that they are refused. It quotes no password.
func (i Ironic) Login() string {
	at := func(o Origin) string {
		if o.Kind == FromDefault {
			return "" // made by hand, as tests do
		}
		return " (" + o.String() + ")"
	}
	user := fmt.Sprintf("ironic.username %q%s", i.Username, at(i.origins.username))
	if i.PasswordFile != "" {
		return user + ", and the password in " + i.PasswordFile + ", which ironic.password_file" + at(i.origins.password) +
			" names"
	}
	return user + " and ironic.password" + at(i.origins.password)
}

// ClientTLS is how this peer speaks TLS to a service of others.
type ClientTLS struct {
	CAFile             string `key:"ca_file"`
	CertFile           string `key:"cert_file"`
	KeyFile            string `key:"key_file"`
	InsecureSkipVerify bool   `key:"insecure_skip_verify"`
}

// Keystone is what ironic.auth_type keystone needs besides a user; its keys
// stand in the section of Ironic.
type Keystone struct {
	AuthURL       string `key:"auth_url"`
	Project       string `key:"project_name"`
	UserDomain    string `key:"user_domain_name"`
	ProjectDomain string `key:"project_domain_name"`
	Region        string `key:"region"` // "" where the catalogue has one
}

// Inspection is the section whose option names are ironic-inspector's.
type Inspection struct {
	Timeout         time.Duration `key:"timeout"`
	CleanUpPeriod   time.Duration `key:"clean_up_period"`
	RebootThrottle  time.Duration `key:"reboot_throttle"` // also set by inspection.introspection_delay
	QueueGetTimeout time.Duration `key:"queue_get_timeout"`
	ReportExpiry    time.Duration `key:"report_expiry"` // 0 keeps for ever
	Workers         int           `key:"workers"`       // 0 means: one a CPU
	CanManageBoot   bool          `key:"can_manage_boot"`
	StoreData       bool          `key:"store_data"`
	APIMaxLimit     int           `key:"api_max_limit"`
	Processing      Processing    `key:"processing"`
	// IPMIAddressFields are keys of driver_info after ipmi_address that may hold the BMC's address.
	IPMIAddressFields []string  `key:"ipmi_address_fields"`
	Discovery         Discovery `key:"discovery"`
	HookOptions       HookOptions

	// ContinueInspection says what becomes of the callbacks that were meant for
	// Ironic's own inspection: ContinueOff, ContinueNative or ContinueRelay.
	ContinueInspection string `key:"continue_inspection"`
}

// Values of inspection.continue_inspection.
const (
	ContinueOff    = "off"
	ContinueNative = "native"
	ContinueRelay  = "relay"
)

// Processing is what is done with the data that a ramdisk sends.
type Processing struct {
	Hooks                     []string `key:"processing_hooks"`
	AddPorts                  string   `key:"add_ports"`
	KeepPorts                 string   `key:"keep_ports"`
	OverwriteExisting         bool     `key:"overwrite_existing"`
	UpdatePXEEnabled          bool     `key:"update_pxe_enabled"`
	DiskPartitioningSpacing   bool     `key:"disk_partitioning_spacing"`
	PowerOff                  bool     `key:"power_off"`
	NodeNotFoundHook          string   `key:"node_not_found_hook"` // "", enroll or example
	PermitActiveIntrospection bool     `key:"permit_active_introspection"`
	RamdiskLogsDir            string   `key:"ramdisk_logs_dir"` // "" keeps none
	RamdiskLogsFilenameFormat string   `key:"ramdisk_logs_filename_format"`
	RamdiskLogsQuota          int      `key:"ramdisk_logs_quota"` // MiB
	AlwaysStoreRamdiskLogs    bool     `key:"always_store_ramdisk_logs"`
}

// Discovery is how an unknown machine is enrolled in Ironic.
type Discovery struct {
	EnrollNodeDriver         string   `key:"enroll_node_driver"`
	EnabledBMCAddressVersion []string `key:"enabled_bmc_address_version"` // "4" and "6", or one of them
	EnrollNodeFields         []string `key:"enroll_node_fields"`          // NAME:VALUE each
}

// HookOptions are the sections of single hooks.
type HookOptions struct {
	Capabilities        Capabilities `key:"capabilities"`
	PCIAlias            []string     `key:"pci_devices.alias"`     // VENDOR:PRODUCT:NAME each
	CIDRMap             []string     `key:"port_physnet.cidr_map"` // CIDR:NETWORK each, of physnet_cidr_map
	ExtraHardwareStrict bool         `key:"extra_hardware.strict"`
	KnownAccelerators   string       `key:"accelerators.known_devices"` // file; "" for those that are built in
}

// Capabilities is what the hook of that name tells Ironic.
type Capabilities struct {
	BootMode bool     `key:"boot_mode"`
	CPUFlags []string `key:"cpu_flags"` // FLAG:CAPABILITY each
}

// Firewall is the section of the PXE filter.
type Firewall struct {
	Driver              string        `key:"driver"`
	Interface           string        `key:"interface"`
	SyncPeriod          time.Duration `key:"sync_period"`           // 0 means: one pull per leadership
	WhitelistPollPeriod time.Duration `key:"whitelist_poll_period"` // 0 means: off
	DenyUnknownMACs     bool          `key:"deny_unknown_macs"`
	InspectInterfaces   []string      `key:"inspect_interfaces"` // of Ironic, whose nodes may boot, too
	Recorder            bool          `key:"recorder"`           // records how machines boot
	// Probe asks whether the other hosts' filters stop a denied machine.
	Probe bool `key:"probe"`
	// Lease is at most MaxFirewallLease; L of docs/design.md#pxe-lease; D is twice this.
	Lease        time.Duration `key:"lease"`
	Freeze       time.Duration `key:"freeze"` // at most MaxFirewallFreeze
	Match        string        `key:"match"`
	DHCPHostsDir string        `key:"dhcp_hostsdir"` // of driver dnsmasq
}

// FloatingIP is the address that the leader holds; both empty when there is none.
type FloatingIP struct {
	Address   string `key:"address"`
	Interface string `key:"interface"`
}

// Raft is the section of the log.
type Raft struct {
	Timing        string        `key:"timing"`
	LogStore      string        `key:"log_store"`
	FinalizeAfter time.Duration `key:"finalize_after"`
}

// Secret is a value that no print, log or encoding shows.
type Secret string

const redacted = "(redacted)"

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String hides the secret; an empty one stays empty, so that one sees whether it is set.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return `config.Secret("` + s.String() + `")` }

// MarshalText hides the secret from JSON, YAML, slog and the like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Default is the configuration when nothing is written anywhere. Its Name is
// empty, because the default name is the host's, which [Load] is told.
func Default() Config {
	var c Config
	for _, o := range table {
		value, f := parseAs(o.field(&c), o.Default)
		if f != nil {
			panic("config: the default of " + o.Key + ": " + f.what) // a slip in the table; its test finds it
		}
		o.set(&c, value)
	}
	return c
}

// Origin says where the value of a key came from.
func (c Config) Origin(key string) Origin {
	return c.origins[canonical(key)]
}

// Warnings are values that were accepted but deserve a second look.
func (c Config) Warnings() Problems { return slices.Clone(c.warnings) }
