package main

// wireMutants let hand-made packets, or rules of other programs, past the filter.
func wireMutants() []Mutant {
	const skeleton, nft, cut, truth = "firewall/nftables/skeleton.go", "./firewall/nftables", "^TestFragmentsOfIPv6$", "^TestTruthTable$"
	return []Mutant{
		{
			Name: "fragments-pass-the-gate", Promise: "2", File: skeleton,
			Old:     "	k.add(chainGate, over(unix.NFPROTO_IPV6), fragment(), verdict(expr.VerdictDrop, \"\"))\n",
			New:     "",
			Package: nft, Run: cut, Assertion: "fragments: a relay's, the type in the second",
		},
		{
			Name: "headless-fragments-pass", Promise: "2", File: skeleton,
			Old:     "	k.addHeadless(l.Interface)\n",
			New:     "",
			Package: nft, Run: cut, Assertion: "fragments: headers that leave no port",
		},
		{
			Name: "headless-fragments-with-flags-pass", Promise: "2", File: skeleton,
			Old:     "func lastOfFirst() []byte { return []byte{0, 7} }\n",
			New:     "func lastOfFirst() []byte { return []byte{0, 0} }\n",
			Package: nft, Run: cut, Assertion: "fragments: headers that leave no port",
		},
		{
			Name: "chaddr-blind-to-the-frame", Promise: "2", File: skeleton,
			Old:     "		deny(slices.Concat(direct, frame))\n",
			New:     "		_ = direct\n",
			Package: nft, Run: truth, Assertion: "truth: match chaddr, frame denied",
		},
		{
			Name: "chaddr-denies-by-a-relays-frame", Promise: "2", File: skeleton,
			Old:     "		deny(slices.Concat(direct, frame))\n",
			New:     "		_ = direct\n		deny(frame)\n",
			Package: nft, Run: truth, Assertion: "truth: match chaddr, frame a relay's",
		},
		{
			Name: "frame-permits-before-the-client-denies", Promise: "2", File: skeleton,
			Old:     "	deny(client)\n	permit(frame)\n",
			New:     "	permit(frame)\n	deny(client)\n",
			Package: nft, Run: truth, Assertion: "truth: match ether, frame under introspection",
		},
		{
			Name: "denied-though-under-introspection", Promise: "2", File: skeleton,
			Old:     "		k.add(chainGate, address, lookup(setAllow, false), lookup(setDeny, true)",
			New:     "		k.add(chainGate, address, lookup(setDeny, true)",
			Package: nft, Run: truth, Assertion: "truth: match ether, frame under introspection",
		},
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

// rivalMutants let another host keep the floating IP that this one has.
func rivalMutants() []Mutant {
	return []Mutant{
		{
			Name: "stranger-noted-and-not-answered", Promise: "2", File: "firewall/rivals.go",
			Old:     "		w.announce.next = time.Time{}\n",
			New:     "		_ = time.Time{}\n",
			Package: "./firewall", Run: "^TestHeldAddressIsDefended$", Assertion: "defended: announced 0 times",
		},
		{
			Name: "defence-floods", Promise: "2", File: "firewall/rivals.go",
			Old:     "const defendEvery = 10 * time.Second\n",
			New:     "const defendEvery = time.Second\n",
			Package: "./firewall", Run: "^TestDefenceDoesNotFlood$", Assertion: "defended: heard",
		},
	}
}
