// Package doctor judges how the hosts of a cluster are set up: pools of DHCP
// that overlap, firewalls that drop what a peer needs, boot files that nobody
// can fetch.
//
// Each host gathers Facts about itself; doctor/host does it. Judge turns the
// facts of all of them into Findings, each with what to do about it. It
// computes only, so that every check can be tested with a fault that is written
// down, and knows no network.
//
// A new check is one file: a function from the facts of all hosts to findings,
// and a line in [Checks]. What it needs to know becomes a field of [Facts].
package doctor
