// Package inspector introspects bare-metal nodes: it takes what the API is
// asked, queues it in the replicated state, and works on what is queued, on
// every peer at once (docs/design.md#introspection).
//
// Service is the front door. Workers claim queued requests inside their peer's
// session and drive Ironic. Sweeps are the leader's duties: timeouts, expiry of
// reports, nodes that Ironic dropped. What is done with a ramdisk's data lies
// in hooks, one each in its own file of package inspector/hooks; Ironic is
// reached through the interfaces here, which inspector/ironic implements.
package inspector
