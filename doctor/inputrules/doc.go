// Package inputrules decides whether the packet filter of a host blocks a port on
// which its programs listen, from the output of 'nft -j list ruleset' and of
// iptables-save. It only computes.
//
// It reports no false positive: a rule or statement that it does not understand may
// match or not. What it calls blocked is blocked for every source; what it does not
// call blocked may still be blocked.
package inputrules
