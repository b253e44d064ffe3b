// Package inspector introspects bare-metal nodes (docs/design.md#introspection). It holds
// what its parts share: settings, the log as they use it, hooks and the task that they work
// on, refusals in the contract's words.
//
// A request of the API comes to inspector/accept, which queues it in the replicated state.
// inspector/work claims what is queued, on every peer at once, and drives Ironic; every
// effect passes the check of docs/design.md#guard. inspector/periodic is what the leader does
// when it is due, and inspector/relay hands callbacks on that are Ironic's own. Below them
// inspector/identify says whose machine it is that calls, and inspector/ironic is Ironic. A
// ramdisk's data is processed by hooks, one file each in inspector/hooks, and by rules
// (inspector/rules).
package inspector
