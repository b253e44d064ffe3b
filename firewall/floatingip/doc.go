// Package floatingip adds and removes the one address under which clients reach the peer
// that leads (docs/design.md#address). Its caller has proved leadership; this package
// knows nothing of Raft. What lets the address out of the host is not here
// (nftables.Address).
//
// The address is a /32 or /128 with a lifetime that Put renews. The kernel removes it when
// the lifetime ends, so that a holder that was killed or stopped loses it. Announce sends
// gratuitous ARP or neighbour advertisements, so that neighbours find the new holder at
// once; without it they took 32 s (measured).
//
// An Address keeps no socket and caches nothing of the kernel: each call looks up the
// interface and opens what it needs. So an interface that was removed and added again,
// with another index and perhaps another MAC, needs no special case, and neither does a
// process that follows one that crashed.
//
// Rejected: VRRP leaves the address on a holder that died or was stopped (in every trial
// with keepalived two hosts had it), and an address that a process removes by itself stays
// on a host whose process is stopped.
package floatingip
