// Package raftstore keeps the replicated log: propose, read, watch, change
// members.
//
// It is the only package that knows hashicorp/raft. Everything above it sees
// fsm values, fencing tokens and a handful of errors. DESIGN.md tells the
// decisions and the roads not taken; the rules come from docs/design.md#log and the sections after it.
package raftstore
