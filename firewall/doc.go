// Package firewall keeps the one open door: it decides what a host's PXE filter
// should let through, and holds the kernel's permission to let anything through
// at all (docs/design.md#pxe).
//
// Three things are kept apart. Desired says, from role and replicated state,
// which rules a host should have; it does nothing. Chains program these rules;
// they are harmless by themselves, since everything lies below the lease. The
// Lease is a kernel object with a timeout, moved by compare-and-swap; only the
// Guard touches it, and only after a proof of leadership. Drivers live in the
// packages below; they know nothing of Raft.
package firewall
