package main

// relayMutants let a machine through in the frame of a relay or a router, which
// no list knows.
func relayMutants() []Mutant {
	const file, unit, run, says = "firewall/nftables/skeleton.go", "./firewall/nftables", "^TestWhoIsBehindARouter$", "relays:"
	return []Mutant{
		{
			Name: "relayed-over-ipv4-is-let-in", Promise: "2", File: file,
			Old:     "	if m != firewall.MatchChaddr {\n",
			New:     "	if m != firewall.MatchChaddr && m != firewall.MatchEther {\n",
			Package: unit, Run: run, Assertion: says,
		},
		{
			Name: "relayed-over-ipv6-is-let-in", Promise: "2", File: file,
			Old:     "const relayForward = 12\n",
			New:     "const relayForward = 13\n",
			Package: unit, Run: run, Assertion: says,
		},
		{
			Name: "relays-are-looked-at-below-the-lists", Promise: "2", File: file,
			Old:     "	k.addRelays(l.Match)\n	if lists {\n		k.addLists(l.Match)\n	}\n",
			New:     "	if lists {\n		k.addLists(l.Match)\n	}\n	k.addRelays(l.Match)\n",
			Package: unit, Run: run, Assertion: says,
		},
		{
			Name: "a-lease-alone-lets-relays-in", Promise: "2", File: file,
			Old:     "	k.addRelays(l.Match)\n	if lists {\n",
			New:     "	if lists {\n		k.addRelays(l.Match)\n",
			Package: unit, Run: run, Assertion: says,
		},
		{
			Name: "denied-by-the-frame-alone", Promise: "2", File: file,
			Old:     "	deny(client)\n	permit(frame)\n",
			New:     "	_ = client\n	permit(frame)\n",
			Package: unit, Run: run, Assertion: says,
		},
	}
}
