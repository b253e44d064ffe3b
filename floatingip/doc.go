// Package floatingip carries the one address that is reached on whichever peer
// leads (docs/design.md#address). It does what it is told, by the one who has proof of
// leadership, and knows nothing of Raft.
//
// The address is a /32 or /128 with a lifetime, refreshed by Put and removed by
// the kernel when nobody does: a holder that was killed or stopped loses it
// without anybody's help. Neighbours find the next holder at once, because
// Announce tells them; left to themselves they took 32 s (measured).
//
// An Address keeps no socket and remembers nothing of the kernel: each call
// finds the interface anew and opens what it needs. So an interface that went
// and came back, with another index and perhaps another MAC, is no special
// case, and neither is a process that follows one that crashed.
//
// The roads not taken: VRRP leaves the address on a holder that died or was
// stopped (two hosts had it in every trial with keepalived), and an address
// that a process removes by itself is kept by a process that cannot.
package floatingip
