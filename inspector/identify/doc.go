// Package identify says whose machine it is that a ramdisk calls from: a node's under
// introspection, another that Ironic has, one whose callback this is again, or a new one's.
//
// A Machine is what the data say. A Search compares it with what the replicated state and
// Ironic know of nodes, by one table of evidence (docs/contract.md#identity), and gives an
// Answer. It never chooses between nodes that are equally likely. All functions may be
// called concurrently.
package identify
