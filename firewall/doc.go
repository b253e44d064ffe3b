// Package firewall decides which machines may reach the PXE service of a host, and
// holds the kernel's permission to let any of them through (docs/design.md#pxe).
//
// Three parts are separate. Desired computes, from role and replicated state, which rules
// a host should have. Lists programs them through Chains, a driver; they are harmless by
// themselves, since they lie below the lease. The Lease is a kernel object with a timeout
// that is moved by compare-and-swap; only the Guard touches it, after a proof of
// leadership. The drivers nftables, iptables and dnsmasq know nothing of Raft.
//
// Two words mean the same throughout the package and its state in fsm: a "door" is what at
// most one host may have open, the PXE service or the floating IP. It is open while its
// lease, or address, is in force in the kernel.
package firewall
