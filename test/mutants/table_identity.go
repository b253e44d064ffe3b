package main

// identityMutants let what machines have in common identify one of them.
func identityMutants() []Mutant {
	return []Mutant{
		{
			Name:      "card-in-common-outweighs-all",
			Promise:   "5",
			File:      "inspector/lookup.go",
			Old:       "case contradicts(m, rec.Attributes):",
			New:       "case contradicts(m, rec.Attributes) && len(m.MACs) == 0:",
			Package:   "./inspector",
			Run:       "^TestStrangerWithACardInCommon$",
			Assertion: "card-in-common:",
		},
		{
			Name:      "card-in-common-ends-a-discovery",
			Promise:   "5",
			File:      "inspector/node_lookup.go",
			Old:       "if p.Node == of.Other || contradicts(of, fsm.Attributes{MACs: ports.macs[p.Node], BMC: bmcs.addresses[p.Node]}) {",
			New:       "if len(of.MACs) == 0 && contradicts(of, fsm.Attributes{}) {",
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
			New:       "if v.Introspecting() && m.MACs == nil {",
			Package:   "./inspector",
			Run:       "^TestPortThatComesLate$",
			Assertion: "late-port:",
		},
		{
			Name:      "discovered-by-cards-that-are-no-port",
			Promise:   "5",
			File:      "inspector/discovery.go",
			Old:       "if lacks(perhaps, chosen) {",
			New:       "if lacks(perhaps, chosen) && len(shared) > 0 {",
			Package:   "./inspector",
			Run:       "^TestMachinesWithACardInCommon$",
			Assertion: "own-node:",
		},
	}
}

// otherMachineMutants take a machine for another one although something speaks against it.
func otherMachineMutants() []Mutant {
	return []Mutant{
		{
			Name:      "inner-card-identifies",
			Promise:   "5",
			File:      "inspector/identity.go",
			Old:       "return lacks(m.MACs, macs) || len(macs) > 0 && !lacks(m.Inner, macs)",
			New:       "return lacks(m.MACs, macs)",
			Package:   "./inspector",
			Run:       "^TestNodeKnownByACardInCommon$",
			Assertion: "inner-card:",
		},
		{
			Name:      "serial-number-is-not-compared",
			Promise:   "5",
			File:      "inspector/callback.go",
			Old:       `return err == nil && serial != "" && serial != m.Serial`,
			New:       `return err == nil && serial == ""`,
			Package:   "./inspector",
			Run:       "^TestSerialNumberDecides$",
			Assertion: "serial-number: found",
		},
		{
			Name:      "serial-number-outweighs-the-bmc",
			Promise:   "5",
			File:      "inspector/identity.go",
			Old:       "return !sameBMC && otherBMC",
			New:       "return (!sameBMC || true) && otherBMC",
			Package:   "./inspector",
			Run:       "^TestSerialNumberDecides$",
			Assertion: "serial-number: found",
		},
		{
			Name:      "ports-of-another-node-do-not-count",
			Promise:   "5",
			File:      "inspector/callback.go",
			Old:       "return most > ports[node]",
			New:       "return most > len(macs)",
			Package:   "./inspector",
			Run:       "^TestSerialNumberDecides$",
			Assertion: "serial-number: found",
		},
		{
			Name:      "machine-that-is-another-is-found-by-its-port",
			Promise:   "5",
			File:      "inspector/node_lookup.go",
			Old:       "if p.Node == of.Other || contradicts(",
			New:       "if contradicts(",
			Package:   "./inspector",
			Run:       "^TestSerialNumberDecides$",
			Assertion: "serial-number: found",
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
