// Package probe looks for DHCP servers that the PXE filter does not stop: servers on raw
// sockets, as ISC dhcpd and Kea use them, see a request before any rule of INPUT does.
//
// Each peer asks for an address from time to time, as a machine that every host denies
// (firewall.TestMAC), and no server may answer. What a host sends does not pass its own
// INPUT, so that each peer tests the other hosts, and every host is tested by the other
// peers. An answer may also come from a host that is no peer: a foreign server on the same
// network is as wrong there.
//
// The request asks for a broadcast answer, as PXE ROMs do; otherwise the answer would go to an
// address that no interface here has. DHCPv6 has no such answer: its request comes from the
// denied MAC and the interface's own address. Where the network drops frames with a foreign MAC (a
// switch's port security, a hypervisor's spoof check) the request arrives nowhere, and silence
// proves nothing; and a switch may shut the port for it: firewall.probe turns it off.
package probe
