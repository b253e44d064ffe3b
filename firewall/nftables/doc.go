// Package nftables is the PXE filter in the kernel's nf_tables: the rules
// (firewall.Chains) and the lease (firewall.Lease), in one table of our own,
// over netlink and without any command. The floating IP is gated there, too.
//
//	table inet trivet_pxe {
//		set lease   { type inet_service; flags timeout; }  # gated ports that are open, each until it ends
//		set arm     { type inet_service; flags timeout; }  # what Open swaps from; no rule reads it
//		set allow   { type ether_addr; }
//		set deny    { type ether_addr; }
//		set pass    { type inet_service; }                 # the gated ports, or nothing
//		set edition { type mark; }                         # what Change swaps from; no rule reads it
//		set offered { type ipv4_addr; flags dynamic, timeout; }                # addresses that were offered
//		set offers  { type ipv4_addr . ether_addr; flags dynamic, timeout; }   # and to which machines
//		set withheld1, set withheld2, set withheld3                            # as offers: withheld so often
//		chain input {
//			type filter hook input priority -10; policy accept;
//			iifname "INTERFACE" udp dport 67 jump gate
//			iifname "INTERFACE" udp dport 547 jump gate
//			iifname "INTERFACE" udp dport 4011 jump gate
//			iifname "INTERFACE" nfproto ipv6, first fragment with a port return
//			iifname "INTERFACE" nfproto ipv6, first fragment drop
//		}
//		chain gate {
//			th dport != @lease drop
//			nfproto ipv6, fragment header drop
//			nfproto ipv4, giaddr != 0 drop                 # not with firewall.match: chaddr
//			nfproto ipv6, DHCPv6 type RELAY-FORW drop
//			nfproto ipv4, chaddr != @allow, chaddr @deny drop
//			ether saddr @allow accept
//			ether saddr != @allow, ether saddr @deny drop
//			th dport @pass accept
//			drop
//		}
//		chain output {
//			type filter hook output priority -10; policy accept;
//			oifname "INTERFACE" nfproto ipv4, udp sport 67, DHCPOFFER jump offer
//		}
//		chain offer {
//			yiaddr . chaddr @offers update @offers, update @offered, accept
//			yiaddr . chaddr @withheld3 update @offers, update @offered, accept
//			yiaddr @offered, yiaddr . chaddr @withheld2 update @withheld3, drop
//			yiaddr @offered, yiaddr . chaddr @withheld1 update @withheld2, drop
//			yiaddr @offered, update @withheld1, drop
//			update @offers, update @offered
//		}
//	}
//
// The floating IP has a lease of its own, in tables of its own, of family arp for an IPv4
// address as well (Address):
//
//	table inet trivet_address {
//		set lease { type ipv4_addr; flags timeout; }
//		set arm   { type ipv4_addr; flags timeout; }
//		set held  { type ipv4_addr; }              # while this host holds the address; else nothing is dropped
//		chain output {
//			type filter hook postrouting priority 110; policy accept;
//			nfproto ipv4, ip saddr ADDRESS, ip saddr @held, ip saddr != @lease drop
//		}
//	}
//	table arp trivet_address {
//		set lease, set arm, set held
//		chain output {
//			type filter hook output priority -10; policy accept;
//			arp saddr ip ADDRESS, arp saddr ip @held, arp saddr ip != @lease drop
//		}
//	}
//
// Chains and rules never change once they are built; only elements of sets do, those of
// offered, offers and withheld1 to withheld3 by packets alone. So the driver that reads
// the table back knows what it must look like to the last expression, and a difference
// is a change by another program.
//
// # Relays
//
// A relay's frames say nothing about the machine behind it. What relays pass on
// is dropped below the lease and above the lists, which would take it for one
// unknown machine; with firewall.match: chaddr the lists permit by
// chaddr instead, over IPv4, and only DHCPv6, which has none, is dropped. A frame
// that no relay sent denies then, too (addLists has these rules). What no relay touched may still come through a
// router: a lease is renewed by unicast. Over IPv4 that is denied by chaddr in either case; one renewed over IPv6 from
// behind a router, which only a server that offers it is asked for, counts as unknown. A LeaseOnly table drops the
// same of relays, so that a driver whose lists cannot look inside messages need not.
//
// # Fragments
//
// Fragments of IPv6 meet this hook one by one, so that a rule may not see what it
// looks for: a RELAY-FORW whose first fragment ends behind the UDP header has no
// type yet. Those to a gated port are dropped below the lease, and first
// fragments that end before their port in chain input. Whole datagrams, and
// fragments to other ports, are none of this table's business.
//
// # Compare and swap
//
// Deleting an element that is not there, or that has ended, fails the whole
// transaction, and nothing of it is written. Two things stand on that. The
// lease is swapped for itself, so that a process that slept cannot open the
// door (docs/design.md#pxe-lease). And a change of the lists swaps their edition, so that it
// never adds to lists that were emptied or rebuilt meanwhile. Where a decision
// rests on what was read, the transaction also carries the ruleset's generation,
// and the kernel refuses it if any program committed in between.
//
// # Changes by other programs
//
// A Watch hears of them from the kernel, and the table is built again, closed. In
// between, 12 to 26 ms after 'nft flush ruleset' (measured), nothing is filtered.
// The flags owner and persist (Linux 6.9) keep a table through a flush; they are
// not used, because then one socket alone can write to the table: the process that
// closes the door of a peer that hangs could not.
//
// # Netlink
//
// Expressions and datatypes are those of google/nftables; its connection is not
// used. It takes acknowledgements in the order they come, so that on a lasting
// socket those that a failure leaves behind count for the next transaction; it
// asks for an echo of every rule, which not every kernel sends the way it
// expects; and a call with more than 3,276 MACs loses most of them in silence.
// Here a transaction has one acknowledgement, that of its last message, and a
// socket that saw a failure is closed.
package nftables
