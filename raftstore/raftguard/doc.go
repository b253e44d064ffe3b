// Package raftguard is what hashicorp/raft 1.8 needs around it to keep what it promises: log,
// stable store and requests pass through it on their way to raft and back. README.md has, for
// each part, the fault that it corrects and the test that shows it.
//
// Nothing here knows what the log is used for: it imports raft and the standard library.
package raftguard
