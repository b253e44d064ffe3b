// Package inspector introspects bare-metal nodes: it accepts requests of the API, queues
// them in the replicated state, and processes the queue on every peer at once
// (docs/design.md#introspection).
//
// Service answers the API. Workers claim queued requests inside their peer's session and
// drive Ironic; every effect passes the check of docs/design.md#guard. The leader's
// periodic duties end introspections that timed out, delete expired reports, and
// synchronise with Ironic's nodes. A ramdisk's data is processed by hooks, one file each in
// inspector/hooks, and by rules (inspector/rules). inspector/ironic implements the
// interfaces through which Ironic is reached.
package inspector
