// Package work carries out what inspector/accept and the leader have queued. The Pool of each
// peer claims requests inside its peer's session and gives each to a job, which knows what
// was asked for, writes into the log what became of it (outcome), and does nothing to the
// node before it has made sure that it still may (effects).
package work
