package main

// identityMutants let what machines have in common identify one of them.
func identityMutants() []Mutant {
	return []Mutant{
		{
			Name:      "card-in-common-outweighs-all",
			Promise:   "5",
			File:      "inspector/lookup.go",
			Old:       "case contradicts(a, rec.Attributes):",
			New:       "case contradicts(a, rec.Attributes) && len(a.MACs) == 0:",
			Package:   "./inspector",
			Run:       "^TestStrangerWithACardInCommon$",
			Assertion: "card-in-common:",
		},
		{
			Name:      "card-in-common-ends-a-discovery",
			Promise:   "5",
			File:      "inspector/node_lookup.go",
			Old:       "if contradicts(a, fsm.Attributes{MACs: ports.macs[p.Node], BMC: bmcs.addresses[p.Node]}) {",
			New:       "if len(a.MACs) == 0 {",
			Package:   "./inspector",
			Run:       "^TestMachinesWithACardInCommon$",
			Assertion: "own-node:",
		},
		{
			Name:      "port-of-bmc-taken-for-its-name",
			Promise:   "5",
			File:      "inspector/lookup_bmc.go",
			Old:       `if !strings.Contains(text, "//") {`,
			New:       `if !strings.Contains(text, "//") && text[:1] == "[" {`,
			Package:   "./inspector",
			Run:       "^TestBMCWithAPort$",
			Assertion: "one-node:",
		},
		{
			Name:      "port-that-comes-late-is-not-looked-for",
			Promise:   "9",
			File:      "inspector/find.go",
			Old:       "if v.Introspecting() {",
			New:       "if v.Introspecting() && a.MACs == nil {",
			Package:   "./inspector",
			Run:       "^TestPortThatComesLate$",
			Assertion: "late-port:",
		},
		{
			Name:      "discovered-by-cards-that-are-no-port",
			Promise:   "5",
			File:      "inspector/discovery.go",
			Old:       "if lacks(shared, chosen) {",
			New:       "if lacks(shared, chosen) && len(shared) > 0 {",
			Package:   "./inspector",
			Run:       "^TestMachinesWithACardInCommon$",
			Assertion: "own-node:",
		},
		{
			Name:      "group-address-gets-a-port",
			Promise:   "9",
			File:      "inspector/hooks/validate_interfaces.go",
			Old:       "case n.local() || !inspector.OwnMAC(n.MAC):",
			New:       "case n.local():",
			Package:   "./inspector/hooks",
			Run:       "^TestMACsThatAreNobodysOwn$",
			Assertion: "own-mac:",
		},
	}
}
