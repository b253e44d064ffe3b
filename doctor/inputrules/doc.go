// Package inputrules decides whether the packet filter of a host keeps out what
// its programs listen for: from what 'nft -j list ruleset' and iptables-save
// print. It computes only.
//
// It is made to be believed. A rule of which it cannot know whether it fits the
// packet may do either, and so may a statement that it does not know: what is
// called blocked is blocked for every source there is, and what is not may
// still be.
package inputrules
