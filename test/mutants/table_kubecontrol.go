package main

// kubeControlMutants let an operator do to kube nodes what was not meant, or have
// a peer watch what nobody asked it to.
func kubeControlMutants() []Mutant {
	const appUnit = "./app"
	return []Mutant{
		{
			Name: "power-without-confirmation", Promise: "failover", File: "app/admin/failover.go",
			Old:     "	case in.Confirm != node:\n",
			New:     "	case in.Confirm == \"\":\n",
			Package: "./app/admin", Run: "^TestPowerIsSwitchedOnlyInSoManyWords$", Assertion: `{"power":"off","confirm":"w2"}: <nil>`,
		},
		{
			Name: "leader-not-asked", Promise: "failover", File: "app/admin/failover.go",
			Old:     "	case self:\n",
			New:     "	case self || err == nil:\n",
			Package: "./app/admin", Run: "^TestOnlyTheLeaderJudges$", Assertion: "another leads: ",
		},
		{
			Name: "power-during-remediation", Promise: "failover", File: "app/admin/kube_nodes.go",
			Old:     "		if r.Cluster == m.Cluster && r.Node == m.Node {\n",
			New:     "		if r.Cluster == m.Cluster && r.Node == m.SystemUUID {\n",
			Package: appUnit, Run: "^TestAMachineInRemediationIsNotSwitched$", Assertion: "switched off: ",
		},
		{
			Name: "failover-never-off", Promise: "failover", File: "app/failover.go",
			Old:     "	if conf.Mode == config.FailoverOff {\n",
			New:     "	if conf.Mode == config.FailoverNooBaa {\n",
			Package: appUnit, Run: "^TestFailoverThatIsOffCostsNothing$", Assertion: "opened ",
		},
	}
}
