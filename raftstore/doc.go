// Package raftstore is one peer's end of the replicated log: propose, read, watch, change
// members.
//
// It is the only package of the product that knows hashicorp/raft, with its subpackages,
// which work around raft where that is needed. Callers see fsm values, fencing tokens and a
// handful of errors. Store is the peer's log; Store.Lead returns a Leadership, the only way
// to propose and to prove something as a leader. DESIGN.md explains the decisions and what
// was rejected; docs/design.md#log and docs/design.md#proof have the rules.
package raftstore
