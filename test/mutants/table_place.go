package main

// placeMutants leave the PXE filter on an interface on which no packets arrive.
func placeMutants() []Mutant {
	const host, netif = "./firewall/host", "./firewall/netif"
	return []Mutant{
		{
			Name: "filter-stays-on-the-port-of-a-bridge", Promise: "2", File: "firewall/netif/netif.go",
			Old:     "		p.Name, p.Kind = link.Attrs().Name, link.Type()\n",
			New:     "		p.Kind = link.Type()\n",
			Package: netif, Run: "^TestPlace$", Assertion: "place-of-packets: port of a bridge",
		},
		{
			Name: "filter-loses-a-renamed-interface", Promise: "2", File: "firewall/netif/netif.go",
			Old:     "	if missing(err) && known != 0 {\n",
			New:     "	if missing(err) && known < 0 {\n",
			Package: netif, Run: "^TestPlace$", Assertion: "place-of-packets: renamed",
		},
		{
			Name: "filter-ignores-a-move", Promise: "2", File: "firewall/host/remade.go",
			Old:     "		if now != was {\n",
			New:     "		if now.Index != was.Index {\n",
			Package: host, Run: "^TestAFilterFollowsItsInterface$", Assertion: "follows-its-interface: the lists were not told",
		},
		{
			Name: "misplaced-filter-counts-as-right", Promise: "2", File: "firewall/host/filter.go",
			Old:     "		m := misplaced{f.Chains, f.Lease, why}\n		f.Chains, f.Lease = m, m\n",
			New:     "		_ = misplaced{f.Chains, f.Lease, why}\n",
			Package: host, Run: "^TestAFilterFollowsItsInterface$", Assertion: "follows-its-interface:",
		},
		{
			Name: "misplaced-filter-blamed-on-others", Promise: "2", File: "firewall/lists.go",
			Old:     "errors.Is(err, ErrMisplaced): // no program touched the rules\n",
			New:     "errors.Is(err, ErrMisplaced) && now.Err != nil:\n",
			Package: "./firewall", Run: "^TestMisplacedRulesAreNotBlamedOnOthers$", Assertion: "misplaced-is-no-drift:",
		},
		{
			Name: "bridge-taken-for-a-raw-socket", Promise: "2", File: "doctor/raw.go",
			Old:     "ok && l.Master != \"\" {",
			New:     "ok && l.Master == \"-\" {",
			Package: "./doctor", Run: "^TestServerOnABridge$", Assertion: "cause-of-a-bypass:",
		},
		{
			Name: "filter-closed-under-a-call", Promise: "2", File: "firewall/host/remade.go",
			Old:     "	l.use.Lock() // until the calls of the old filter have ended\n	defer l.use.Unlock()\n",
			New:     "",
			Package: host, Run: "^TestNoFilterIsClosedUnderACall$", Assertion: "closed-under-a-call:",
		},
	}
}
