package main

// installMutants break what 'trivet dnsmasq-config' promises: addresses that no
// other host grants, and a host that is as it was when a step fails.
func installMutants() []Mutant {
	return []Mutant{
		{
			Name:      "install-not-undone",
			Promise:   "install",
			File:      "firewall/pxe/install/work.go",
			Old:       "for _, s := range slices.Backward(w.undo) {",
			New:       "for _, s := range slices.Backward(w.undo[:0]) {",
			Package:   "./firewall/pxe/install",
			Run:       "^TestInstallFails$",
			Assertion: "is left over",
		},
		{
			Name:      "install-overwrites",
			Promise:   "install",
			File:      "firewall/pxe/install/install.go",
			Old:       "if len(changed) > 0 && !p.Force {",
			New:       "if len(changed) > 9 && !p.Force {",
			Package:   "./firewall/pxe/install",
			Run:       "^TestInstallRefuses$",
			Assertion: "not written by trivet: /etc/dnsmasq.d/trivet.conf",
		},
		{
			Name:      "pools-overlap",
			Promise:   "install",
			File:      "firewall/pxe/pool.go",
			Old:       "first := from + int64(part)*each",
			New:       "first := from + int64(part)*(each-1)",
			Package:   "./doctor",
			Run:       "^TestPoolsOfDnsmasqConfig$",
			Assertion: "two machines get the same address",
		},
		{
			Name:      "demo-blind",
			Promise:   "2",
			File:      "app/dev/service.go",
			Old:       "t.pxe.double++",
			New:       "t.pxe.double += 0",
			Package:   "./app/dev",
			Run:       "^TestTwoOpenServicesAreFound$",
			Assertion: "open on two 0 times",
		},
	}
}
