// Package iptables is the PXE filter by the commands of iptables, for hosts
// whose firewall is kept with them: the rules (firewall.Chains), on either back
// end of iptables, legacy and nf_tables.
//
//	*filter
//	-I INPUT 1 -i INTERFACE -p udp -m multiport --dports 67,547,4011 -j TRIVET-PXE
//	-A TRIVET-PXE -j TRIVET-ALLOW
//	-A TRIVET-PXE -j TRIVET-DENY
//	-A TRIVET-PXE -j DROP                                           # the pass rule: ACCEPT
//	-A TRIVET-ALLOW -m mac --mac-source 52:54:00:00:00:01 -j ACCEPT # a list of up to 500 MACs
//	-A TRIVET-DENY -j TRIVET-DENY-0                                 # a longer one, in 16 parts
//	-A TRIVET-DENY-0 -m mac --mac-source 52:54:00:00:00:11 -j DROP
//
// The same stands in ip6tables, where the kernel has IPv6. Chains and lists are
// one commit of iptables-restore per family, and no packet ever meets half of one.
// Two families are two commits: a driver that fails between them no longer knows
// its rules, and refuses to change them until they are replaced.
//
// # The lease
//
// It is not part of these chains, which let through what their lists name; it must
// be there, shut, before the first list is written. It is the compare-and-swap of
// package nftables, in a table that holds nothing else; what either drops is
// dropped. A kernel without nf_tables has no lease, so a peer there refuses to
// open: the matches recent and time cannot be swapped conditionally.
//
// # Changes by other programs
//
// The kernel reports none. Every second, or two where a look takes long, a Watch
// reads whether the first rule of INPUT that can match a gated packet leads to
// TRIVET-PXE, and whether that chain is ours. So it finds 'iptables -F' and an
// ACCEPT that another program puts in front (4 ms of CPU, with the legacy back
// end more for long lists). Changes of the lists are found when all rules are
// read back, every firewall.whitelist_poll_period. Until then the lease still
// holds: no second door opens, but on the leader's host the blacklist may be
// without effect.
//
// # What iptables cannot do
//
// A packet is compared with one MAC after the other, about 0.1 ms for 10,000. A
// program that insists on the first place in INPUT (Calico does) and this driver
// take it from each other by turns; package nftables has a hook of its own.
// iptables cannot match the client's address inside DHCP (firewall.match: chaddr).
// ipset is not used: sets of MACs are missing from too many kernels.
//
// A relay comes as one machine that no list knows; the table of the lease drops
// what relays pass on. A machine behind a router that renews a lease, which no
// relay touches, counts as unknown.
package iptables
