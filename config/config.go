package config

import (
	"fmt"
	"slices"
	"time"
)

// Config is the whole configuration of a peer. Every field has a row in the
// table, where its meaning, default and bounds are written.
type Config struct {
	Name       string
	DataDir    string
	Socket     string
	Log        Log
	API        API
	Cluster    Address
	Gossip     Address
	Ironic     Ironic
	Inspection Inspection
	Firewall   Firewall
	FloatingIP FloatingIP
	Raft       Raft
	Doctor     Doctor
	Backup     Backup
	Failover   Failover
	HAConfig   HAConfig
	Programs

	origins  map[string]Origin // of the keys whose value is not the default
	warnings Problems
}

// Programs are the sections of other programs: what they lease, ask, and are sent.
type Programs struct {
	Lease   Lease
	Elector Elector
	Events  Events
}

// Address is where a service between peers listens and what the others are told.
type Address struct {
	Listen    string
	Advertise string // "" means: find out
}

// Ironic is how this peer reaches Ironic.
type Ironic struct {
	Endpoint string // "" with keystone alone: take it from the catalogue
	// RamdiskEndpoint takes what ramdisks send, without credentials; "": Endpoint does.
	RamdiskEndpoint string
	AuthType        string
	Username        string
	Password        Secret
	PasswordFile    string // "" unless the password stands in a file of its own
	Keystone        Keystone
	TLS             ClientTLS
	Retries         int
	RetryInterval   time.Duration
	Timeout         time.Duration

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
	CAFile             string
	CertFile           string
	KeyFile            string
	InsecureSkipVerify bool
}

// Keystone is what ironic.auth_type keystone needs besides a user; its keys
// stand in the section of Ironic.
type Keystone struct {
	AuthURL       string
	Project       string
	UserDomain    string
	ProjectDomain string
	Region        string // "" where the catalogue has one
}

// Inspection is the section whose option names are ironic-inspector's.
type Inspection struct {
	Timeout           time.Duration
	CleanUpPeriod     time.Duration
	RebootThrottle    time.Duration // also set by inspection.introspection_delay
	QueueGetTimeout   time.Duration
	ReportExpiry      time.Duration // 0 keeps for ever
	Workers           int           // 0 means: one a CPU
	CanManageBoot     bool
	StoreData         bool
	APIMaxLimit       int
	Processing        Processing
	IPMIAddressFields []string // keys of driver_info after ipmi_address that may hold the BMC's address
	Discovery         Discovery
	HookOptions       HookOptions

	// ContinueInspection says what becomes of the callbacks that were meant for
	// Ironic's own inspection: ContinueOff, ContinueNative or ContinueRelay.
	ContinueInspection string
}

// Values of inspection.continue_inspection.
const (
	ContinueOff    = "off"
	ContinueNative = "native"
	ContinueRelay  = "relay"
)

// Processing is what is done with the data that a ramdisk sends.
type Processing struct {
	Hooks                     []string
	AddPorts                  string
	KeepPorts                 string
	OverwriteExisting         bool
	UpdatePXEEnabled          bool
	DiskPartitioningSpacing   bool
	PowerOff                  bool
	NodeNotFoundHook          string // "", enroll or example
	PermitActiveIntrospection bool
	RamdiskLogsDir            string // "" keeps none
	RamdiskLogsFilenameFormat string
	RamdiskLogsQuota          int // MiB
	AlwaysStoreRamdiskLogs    bool
}

// Discovery is how an unknown machine is enrolled in Ironic.
type Discovery struct {
	EnrollNodeDriver         string
	EnabledBMCAddressVersion []string // "4" and "6", or one of them
	EnrollNodeFields         []string // NAME:VALUE each
}

// HookOptions are the sections of single hooks.
type HookOptions struct {
	Capabilities        Capabilities
	PCIAlias            []string // VENDOR:PRODUCT:NAME each
	CIDRMap             []string // CIDR:NETWORK each, of physnet_cidr_map
	ExtraHardwareStrict bool
	KnownAccelerators   string // file; "" for those that are built in
}

// Capabilities is what the hook of that name tells Ironic.
type Capabilities struct {
	BootMode bool
	CPUFlags []string // FLAG:CAPABILITY each
}

// Firewall is the section of the PXE filter.
type Firewall struct {
	Driver              string
	Interface           string
	SyncPeriod          time.Duration // 0 means: one pull per leadership
	WhitelistPollPeriod time.Duration // 0 means: off
	DenyUnknownMACs     bool
	InspectInterfaces   []string      // of Ironic, whose nodes may boot, too
	Recorder            bool          // records how machines boot
	Probe               bool          // asks whether the other hosts' filters stop a denied machine
	Lease               time.Duration // at most MaxFirewallLease; L of docs/design.md#pxe-lease; D is twice this
	Freeze              time.Duration // at most MaxFirewallFreeze
	Match               string
	DHCPHostsDir        string // of driver dnsmasq
}

// FloatingIP is the address that the leader holds; both empty when there is none.
type FloatingIP struct {
	Address   string
	Interface string
}

// Raft is the section of the log.
type Raft struct {
	Timing        string
	LogStore      string
	FinalizeAfter time.Duration
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
		o.set(&c, o.defaultValue())
	}
	return c
}

// Origin says where the value of a key came from.
func (c Config) Origin(key string) Origin {
	return c.origins[canonical(key)]
}

// Warnings are values that were accepted but deserve a second look.
func (c Config) Warnings() Problems { return slices.Clone(c.warnings) }
