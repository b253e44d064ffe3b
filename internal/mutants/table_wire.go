package main

// wireMutants let hand-made packets, or rules of other programs, past the filter.
func wireMutants() []Mutant {
	return []Mutant{
		{
			Name: "watch-content-with-any-jump", Promise: "2", File: "firewall/iptables/watch.go",
			Old:     "	return t.entrance(l, gateChain) == nil &&\n",
			New:     "	return (t.entrance(l, gateChain) == nil || t.has(gateChain)) &&\n",
			Package: "./firewall/iptables", Run: "^TestWatchWantsTheJumpFirst$", Assertion: "first in INPUT: everything",
		},
		{
			Name: "watch-blind-in-the-gate", Promise: "2", File: "firewall/iptables/watch.go",
			Old:     "(t.exactly(gateChain, gate(true)...) == nil || t.exactly(gateChain, gate(false)...) == nil)",
			New:     "t.has(gateChain)",
			Package: "./firewall/iptables", Run: "^TestWatchWantsTheJumpFirst$", Assertion: "first in INPUT: an ACCEPT in our chain",
		},
		{
			Name: "failure-blamed-on-others", Promise: "2", File: "firewall/lists.go",
			Old:     "	if now.Err != nil {\n		return false\n	}\n",
			New:     "",
			Package: "./firewall", Run: "^TestRulesThatFailAreNotBlamedOnOthers$", Assertion: "changes by others",
		},
	}
}
