package config

import "time"

// MaxFirewallLease is the longest firewall.lease. A new leader waits 2 × lease and a
// fifth of it before it opens; below 5 s in all with 1 s for the election leaves this
// (docs/design.md#values).
const MaxFirewallLease = 1500 * time.Millisecond

// MaxFirewallFreeze is the longest firewall.freeze. A machine gives up DHCP after about
// 7.5 s: with the shortest lease a hand-over stays below that (docs/design.md#values).
const MaxFirewallFreeze = 5 * time.Second

var firewallOptions = []Option{
	{Key: "firewall.driver", Change: AtRestart, Extent: MostHosts, Default: "auto",
		rule: oneOf("auto", "nftables", "iptables", "dnsmasq", "noop"),
		Help: "auto takes nftables where the kernel has it, else iptables. dnsmasq keeps the lists in files for dnsmasq, below a lease in the kernel. noop filters nothing."},
	{Key: "firewall.interface", Change: AtRestart, Extent: MostHosts, Default: "br-pxe", rule: interfaceName(),
		Help: "Network interface on which machines boot."},
	{Key: "firewall.sync_period", Change: AtReload, Extent: AllHosts, Default: "15s", rule: between(0, 30*time.Second),
		Help: "How often the leader fetches the ports from Ironic. 0s: once per leadership."},
	{Key: "firewall.whitelist_poll_period", Change: AtReload, Extent: MostHosts, Default: "15s",
		rule: between(0, 30*time.Second),
		Help: "How often the whitelist is compared in full; changes are programmed at once anyway. 0s: never."},
	{Key: "firewall.deny_unknown_macs", Change: AtReload, Extent: AllHosts, Default: "false",
		Help: "Whether machines that Ironic does not know are kept out too."},
	{Key: "firewall.lease", Change: AtRestart, Extent: AllHosts, Default: "400ms",
		rule: between(300*time.Millisecond, MaxFirewallLease),
		Help: "Life of the kernel's permission to let PXE through. A host that died closes within twice this; the next one waits as long."},
	{Key: "firewall.freeze", Change: AtRestart, Extent: AllHosts, Default: "0s", rule: between(0, MaxFirewallFreeze),
		Help: "For how long a hypervisor may freeze a peer's host, as while it moves the guest to another machine or takes a snapshot: after a leader was lost, the next one opens so much later. Clocks of a frozen guest stand still; docs/pxe.md. 0s on machines of their own."},
	{Key: "firewall.match", Change: AtRestart, Extent: AllHosts, Default: "ether", rule: oneOf("ether", "chaddr"),
		Help: "Which address is filtered: the frame's source (ether), or the client's inside DHCPv4 (chaddr; a frame that no relay sent denies, too). Behind DHCP relays: chaddr; ether drops what they pass on, and DHCPv6 from relays is dropped always. chaddr needs driver nftables, or dnsmasq, which compares nothing else and takes it by itself."},
	{Key: "firewall.dhcp_hostsdir", Change: AtRestart, Extent: MostHosts, Default: "/run/trivet-hosts",
		rule: absolutePath(maxText),
		Help: "Directory of driver dnsmasq, and dhcp-hostsdir of dnsmasq. Best in memory; the units may write to the default alone."},
	{Key: "firewall.inspect_interfaces", Change: AtRestart, Extent: AllHosts,
		rule: pairs("inspect interfaces, as agent", isDriverName),
		Help: "Inspect interfaces of Ironic, such as agent: nodes that it inspects by one of them may boot, too. It is asked every second. Empty: only introspections of Trivet."},
	{Key: "firewall.recorder", Change: AtRestart, Extent: MostHosts, Default: "true",
		Help: "Whether the leader listens on firewall.interface to how machines under introspection boot, and says why one does not come up (docs/pxe.md#recorder). No packet is delayed by it. It needs a driver other than noop."},
	{Key: "firewall.probe", Change: AtRestart, Extent: MostHosts, Default: "true",
		Help: "Whether this host asks each minute on firewall.interface, as a machine that every host denies, whether a DHCP server answers past the PXE filter. Its frames come from the MAC 02:74:72:69:76:74: write false where switches hold each port to its MAC (docs/pxe.md#probe)."},
}

var floatingIPOptions = []Option{
	{Key: "floating_ip.address", Change: AtRestart, Extent: AllHosts, rule: orEmpty(floatingAddress()),
		Help: "The address, without a mask."},
	{Key: "floating_ip.interface", Change: AtRestart, Extent: MostHosts, rule: orEmpty(interfaceName()),
		Help: "Network interface that carries it."},
}
