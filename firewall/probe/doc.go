// Package probe looks for DHCP servers that the PXE filter does not stop: those
// that read raw sockets, as ISC dhcpd and Kea do, see a request before any rule
// of INPUT does.
//
// Each peer asks for an address now and then, as a machine that every host
// denies (firewall.TestMAC), and nobody may answer. What a host sends does not
// pass its own INPUT, so that each peer tests the other hosts, and every host is
// tested by the other peers. An answer may come from a host that is no peer's,
// too: a server that somebody else runs on the same network is as wrong there.
//
// The request asks for a broadcast answer, as PXE ROMs do; otherwise the answer
// would go to an address that no interface here has. DHCPv6 has no such answer: its
// request comes from the denied MAC and the interface's own address. Where the network lets no
// foreign MAC pass (a switch's port security, a hypervisor's spoof check) the
// request arrives nowhere and silence proves nothing.
package probe
