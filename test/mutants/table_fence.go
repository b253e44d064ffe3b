package main

const fenceUnit = "./failover/fence"

// fenceMutants take a machine for off of which nobody said so, or switch what
// nobody asked for.
func fenceMutants() []Mutant {
	return []Mutant{
		{
			Name:      "bare-exit-code-taken-for-off",
			Promise:   "failover",
			File:      "failover/fence/agent.go",
			Old:       "	case r.code == 2 && off:\n",
			New:       "	case r.code == 2:\n",
			Package:   fenceUnit,
			Run:       "^TestAgentsAreNotBelievedEasily$",
			Assertion: "shell2: taken for off",
		},
		{
			Name:      "unknown-exit-code-taken-for-off",
			Promise:   "failover",
			File:      "failover/fence/agent.go",
			Old:       "	case r.code == 2 && off:\n",
			New:       "	case r.code != 0 && off:\n",
			Package:   fenceUnit,
			Run:       "^TestAgentsAreNotBelievedEasily$",
			Assertion: "code3: taken for off",
		},
		{
			Name:      "power-state-missing-taken-for-off",
			Promise:   "failover",
			File:      "failover/fence/redfish.go",
			Old:       "		return failover.PowerUnknown, errors.New(\"the BMC's answer has no PowerState\")\n",
			New:       "		return failover.PowerOff, error(nil)\n",
			Package:   fenceUnit,
			Run:       "^TestRedfishPower$",
			Assertion: "taken for off (<nil>), want unknown",
		},
		{
			Name:      "memory-of-ironic-believed",
			Promise:   "failover",
			File:      "failover/fence/ironic.go",
			Old:       "	case before.power() == failover.PowerOn, m.AskOnly:\n",
			New:       "	case before.doing == \"\", m.AskOnly:\n",
			Package:   fenceUnit,
			Run:       "^TestIronicIsNotBelievedFromMemory$",
			Assertion: "said to be off (<nil>), and is power on",
		},
		{
			Name:      "device-of-another-machine",
			Promise:   "failover",
			File:      "failover/fence/redfish.go",
			Old:       "	if !r.anyUUID && !sameUUID(s.UUID, m.SystemUUID) {\n",
			New:       "	if !r.anyUUID && !sameUUID(s.UUID, s.UUID) {\n",
			Package:   fenceUnit,
			Run:       "^TestRedfishPower$",
			Assertion: "taken for off (<nil>), want unknown",
		},
		{
			Name: "a-refusal-loses-its-only-word", Promise: "failover", File: "failover/fence/redfish_http.go",
			Old:     "cmp.Or(m.Message, m.MessageID)",
			New:     "cmp.Or(m.Message, \"\")",
			Package: fenceUnit, Run: "^TestRedfishRefusalWithoutAMessage$", Assertion: "only-word: ",
		},
	}
}
