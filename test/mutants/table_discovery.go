package main

// discoveryMutants break what keeps one machine from becoming two nodes, and a
// reapply from being lost.
func discoveryMutants() []Mutant {
	return []Mutant{
		{
			Name:      "younger-discovery-goes-on",
			Promise:   "5",
			File:      "inspector/discovery.go",
			Old:       "if found, ok := v.Record(other); ok && found.Begun < rec.Begun && !contradicts(Machine{Attributes: rec.Attributes}, found.Attributes) {",
			New:       "if found, ok := v.Record(other); ok && found.Begun == 0 {",
			Package:   "./inspector",
			Run:       "^TestYoungerDiscoveryYields$",
			Assertion: "one-node:",
		},
		{
			Name:      "discovered-by-chance",
			Promise:   "5",
			File:      "inspector/discovery.go",
			Old:       `return uuid.NewSHA1(uuid.MustParse(discoveries), []byte(strings.Join(identity, "\n"))).String(), a, nil`,
			New:       `return uuid.NewString(), a, nil`,
			Package:   "./inspector",
			Run:       "^TestDiscoveredIdentity$",
			Assertion: "one machine is",
		},
		{
			Name:      "discovery-met-again-is-refused",
			Promise:   "4",
			File:      "inspector/discovery.go",
			Old:       "if errors.Is(err, ErrNodeExists) {",
			New:       "if errors.Is(err, ErrNodeExists) && rec.State != fsm.NodeEnrolling {",
			Package:   "./inspector",
			Run:       "^TestDiscoveryIsMetAgain$",
			Assertion: "and not finished within",
		},
		{
			Name:      "enrolling-node-deleted-by-the-sync",
			Promise:   "4",
			File:      "inspector/sync.go",
			Old:       "if rec.State != fsm.NodeEnrolling {",
			New:       "if rec.State != fsm.NodeAbsent {",
			Package:   "./inspector",
			Run:       "^TestSyncLeavesEnrollingAlone$",
			Assertion: "22222222-2222-4222-8222-222222222222",
		},
		{
			Name:      "reapply-met-again-is-dropped",
			Promise:   "4",
			File:      "inspector/job_reapply.go",
			Old:       "if rec.State != fsm.NodeReapplying {",
			New:       "if rec.State != fsm.NodeReapplying || j.request.Attempts > 1 {",
			Package:   "./test/simtest",
			Run:       "^TestReapplySurvives$",
			Assertion: "no-stuck:",
		},
		{
			Name:      "active-node-switched-off",
			Promise:   "9",
			File:      "inspector/job_effect.go",
			Old:       "if e.admissible(t.node) != nil || t.Deployed() {",
			New:       "if e.admissible(t.node) != nil {",
			Package:   "./inspector",
			Run:       "^TestActiveNodeIsStarted$",
			Assertion: "power off",
		},
	}
}
