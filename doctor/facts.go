package doctor

import (
	"net/netip"
	"slices"

	"github.com/trivet-ha/trivet/doctor/dnsmasq"
)

// Facts are what one host knows of itself at a moment. They hold no secret.
type Facts struct {
	Peer  string `json:"peer"`
	ID    string `json:"id,omitempty"`
	Error string `json:"error,omitempty"` // why there are none; the rest is empty then
	// Leads: its peer led when it looked.
	Leads bool `json:"leads,omitempty"`
	Presence

	Plan    Plan    `json:"plan"`
	Links   []Link  `json:"links,omitempty"`
	DHCP    DHCP    `json:"dhcp"`
	Address Address `json:"address"`
	Boot    Boot    `json:"boot"`
	Filter  Filter  `json:"filter"`
	Health
	// Configured are the options that peers do not have in common.
	Configured []Configured `json:"configured,omitempty"`
	Gaps       []Gap        `json:"gaps,omitempty"`
}

// Presence says whether a peer runs on the host.
type Presence struct {
	// Offline: no peer runs there. What only a peer knows is missing.
	Offline bool `json:"offline,omitempty"`
	// Absent says why no peer is there to be started, "" where one is; Join says how
	// to make the host a peer.
	Absent string `json:"absent,omitempty"`
	Join   string `json:"join,omitempty"`
}

// Plan is what the configuration of a peer says.
type Plan struct {
	Driver            string `json:"driver,omitempty"`    // as configured: auto, nftables, iptables, noop
	HostsDir          string `json:"hosts_dir,omitempty"` // of driver dnsmasq
	Match             string `json:"match,omitempty"`
	Interface         string `json:"interface,omitempty"` // on which machines boot
	FreezeMS          int64  `json:"freeze_ms,omitempty"` // firewall.freeze
	FloatingIP        string `json:"floating_ip,omitempty"`
	FloatingInterface string `json:"floating_interface,omitempty"`
	APIPort           uint16 `json:"api_port,omitempty"`
	APIScheme         string `json:"api_scheme,omitempty"`   // http or https
	RamdiskPort       uint16 `json:"ramdisk_port,omitempty"` // of api.ramdisk_listen, 0 for none
	// Who inspects: firewall.inspect_interfaces, and inspection.continue_inspection, which
	// is empty of a peer of v0.2.0.
	InspectInterfaces  []string `json:"inspect_interfaces,omitempty"`
	ContinueInspection string   `json:"continue_inspection,omitempty"`
	// Useless are options that are of no use together: what is wrong, and what to do.
	Useless []Useless `json:"useless,omitempty"`
	// Unusable are files that the configuration names and the peer cannot use.
	Unusable []Useless `json:"unusable,omitempty"`
}

// Useless is what is wrong with an option, next to another one or with the file that it names.
type Useless struct {
	What string `json:"what"` // with file and line
	Do   string `json:"do"`
}

// Link is a network interface.
type Link struct {
	Name      string         `json:"name"`
	MAC       string         `json:"mac,omitempty"`
	Up        bool           `json:"up"`
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// Master is the bridge, bond or other interface that the link is a port of.
	Master string `json:"master,omitempty"`
	// ARPIgnore is the sysctl arp_ignore as it counts on this link. It is read of
	// floating_ip.interface alone.
	ARPIgnore int `json:"arp_ignore,omitempty"`
}

// Subnets are those in which the link has an address. A single address, as the
// floating IP is, has none.
func (l Link) Subnets() []netip.Prefix {
	var out []netip.Prefix
	for _, a := range l.Addresses {
		if !a.IsSingleIP() && !a.Addr().IsLinkLocalUnicast() {
			out = append(out, a.Masked())
		}
	}
	return out
}

// Reserved says what an address is that no single host may have: one of a subnet in which
// the link has an address. "": a host may have it.
func (l Link) Reserved(a netip.Addr) string {
	for _, s := range l.Subnets() {
		switch {
		case !s.Contains(a) || a.BitLen()-s.Bits() < 2:
		case a == s.Masked().Addr() && a.Is4():
			return "the address of the network " + s.String()
		case a == s.Masked().Addr():
			return "the anycast address of the routers of " + s.String()
		case a.Is4() && !s.Contains(a.Next()):
			return "the broadcast address of " + s.String()
		}
	}
	return ""
}

// link finds the interface of a name.
func (f Facts) link(name string) (Link, bool) {
	i := slices.IndexFunc(f.Links, func(l Link) bool { return l.Name == name })
	if i < 0 {
		return Link{}, false
	}
	return f.Links[i], true
}

// BootLink is the interface on which machines boot.
func BootLink(f Facts) (Link, bool) { return f.link(f.Plan.Interface) }

// DHCP is what a host has to do with DHCP.
type DHCP struct {
	Conf      dnsmasq.Config `json:"conf"`
	Listening bool           `json:"listening,omitempty"` // something has port 67 of UDP
	Program   string         `json:"program,omitempty"`   // what has it; "" if this host does not tell
	// Taken are ports that dnsmasq would need on the PXE interface, by the program that
	// has each. The peer's own user may not see what has a port: then it is dnsmasq's, too.
	Taken []Taken `json:"taken,omitempty"`
	// Unit is dnsmasq's; nil where systemd does not run or does not answer.
	Unit *Unit `json:"unit,omitempty"`
	// Early are the units of DHCP servers that systemd does not start after the PXE filter.
	Early []string `json:"early,omitempty"`
	// Answers are the servers that answered this host's test: a machine that
	// every host denies.
	Answers  []Server `json:"answers,omitempty"`
	SelfTest string   `json:"self_test,omitempty"` // why it could not be made
}

// Taken is a UDP port that a program has.
type Taken struct {
	Port uint16 `json:"port"`
	By   string `json:"by"`             // with process and unit, as far as they are known
	Unit string `json:"unit,omitempty"` // of systemd
}

// Server is a DHCP server as it is seen on the network.
type Server struct {
	Address string `json:"address"`
	MAC     string `json:"mac"`
}

// Address is how a host stands to the floating IP.
type Address struct {
	Held     bool     `json:"held,omitempty"`         // by its peer
	Present  []string `json:"present,omitempty"`      // interfaces that have it
	Conflict string   `json:"conflict_mac,omitempty"` // who else answers for it
	VRRP     bool     `json:"vrrp,omitempty"`         // something speaks it here
	// Served are the services that clients call at the address, as this host's peer reached
	// them there. There are none while no host has it.
	Served []Served `json:"served,omitempty"`
}

// Served is what became of asking one service at the floating IP.
type Served struct {
	What  string `json:"what"`
	URL   string `json:"url"`
	Error string `json:"error,omitempty"`
}

// Boot is what machines would fetch from a host.
type Boot struct {
	Files    []File   `json:"files,omitempty"`
	Callback string   `json:"callback,omitempty"` // URL in the script, or several with commas between
	Hosts    []string `json:"hosts,omitempty"`    // addresses of the hosts that it names
}

// File is what became of fetching one file.
type File struct {
	URL   string `json:"url"`
	Kind  string `json:"kind"`            // loader, script, kernel or ramdisk
	Named string `json:"named"`           // where
	Size  int64  `json:"size,omitempty"`  // bytes; of what does not say it, at least so many
	Error string `json:"error,omitempty"` // why it could not be fetched
}

// Filter is how the PXE filter of a host stands.
type Filter struct {
	Driver  string `json:"driver,omitempty"`  // in use
	Problem string `json:"problem,omitempty"` // why its rules are not as they should be
	Drift   int    `json:"drift,omitempty"`   // how often another program changed them, of late
	MACs    int    `json:"macs,omitempty"`    // on its lists
	Renewed uint64 `json:"renewed,omitempty"` // how often the lease was, since the peer's start
	Lapsed  uint64 `json:"lapsed,omitempty"`  // how often the kernel ended the lease before that
	LeaseMS int64  `json:"lease_ms,omitempty"`
	Listed  bool   `json:"listed,omitempty"` // Ironic's ports were listed completely
	AgeMS   int64  `json:"age_ms,omitempty"` // of that list
	Old     bool   `json:"old,omitempty"`    // it is older than it should be
	// Rules of Trivet's that are in the kernel.
	NftTable bool `json:"nft_table,omitempty"`
	// AddressTables are those that gate the floating IP, by family and name.
	AddressTables  []string `json:"address_tables,omitempty"`
	IptablesChains bool     `json:"iptables_chains,omitempty"`
	// Whether there are rules of any program, by the part of the kernel that has
	// them. A packet has to pass both, and no tool lists more than one.
	LegacyRules bool `json:"legacy_rules,omitempty"` // of iptables-legacy
	NftRules    bool `json:"nft_rules,omitempty"`    // of iptables-nft
}

// Gap is what a host could not find out, and for which check.
type Gap struct {
	Check string `json:"check"`
	What  string `json:"what"`
}
