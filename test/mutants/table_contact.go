package main

// contactMutants make status tell untruths about who is live.
func contactMutants() []Mutant {
	const unit, sim = "./cluster", "./test/simtest"
	return []Mutant{
		{
			Name: "status-believes-probes-on-the-leader", Promise: "7", File: "cluster/contact.go",
			Old:     "later(now.Add(-p.Silent), c.before[p.ID])",
			New:     "later(now.Add(-p.Silent), c.own[p.ID].heard)",
			Package: unit, Run: "^TestLeaderBelievesAcknowledgements$", Assertion: "heard-by-leader",
		},
		{
			Name: "status-new-leader-has-heard-nobody", Promise: "7", File: "cluster/contact.go",
			Old:     "		c.before[id] = p.heard\n",
			New:     "		c.before[id] = p.failed\n",
			Package: unit, Run: "^TestNewLeaderKnowsWhoWasHeard$", Assertion: "new-leader: h2, which answered a moment ago",
		},
		{
			Name: "status-follower-believes-itself", Promise: "7", File: "cluster/contact_state.go",
			Old:     "!leads && known && report.report.Leading",
			New:     "!leads && !known && report.report.Leading",
			Package: unit, Run: "^TestFollowerRepeatsItsLeader$", Assertion: "as-leader-hears",
		},
		{
			Name: "status-hides-its-age", Promise: "7", File: "cluster/contact_state.go",
			Old:     "idle > StaleAfter {",
			New:     "idle > 1000*StaleAfter {",
			Package: unit, Run: "^TestStoppedProcessSaysHowOld$", Assertion: "age-is-told",
		},
		{
			Name: "status-late", Promise: "7", File: "cluster/contact.go",
			Old:     "	SilentAfter = time.Second\n",
			New:     "	SilentAfter = 3 * time.Second\n",
			Package: sim, Run: "^TestContact$", Assertion: "counts as silent: not within 2s",
		},
		{
			Name: "probe-trusts-a-dead-connection", Promise: "7", File: "cluster/probe.go",
			Old:     "	if err != nil {\n		l.hangUp(m)\n",
			New:     "	if err != nil {\n",
			Package: unit, Run: "^TestProbesOverTheWire$", Assertion: "redials-after-silence",
		},
		{
			Name: "redial-forgets-dials", Promise: "7", File: "cluster/redial.go",
			Old:     "if w.id == id && w.began.Before(failed) {",
			New:     "if w.id == id && !w.began.Before(failed) {",
			Package: unit, Run: "^TestRedial$", Assertion: "redial: a connection of before the silence",
		},
		{
			Name: "recover-is-named-too-early", Promise: "7", File: "app/health/cluster.go",
			Old:     "if p.ContactMS >= recoverAfter.Milliseconds() {",
			New:     "if p.ContactMS > 0 {",
			Package: "./app/health", Run: "^TestClusterWarnings$", Assertion: "recover-too-early",
		},
		{
			Name: "readyz-calls-what-is-wrong-ok", Promise: "7", File: "api/health.go",
			Old:     "c.Err == nil && c.Warning != nil {",
			New:     "c.Err != nil && c.Warning != nil {",
			Package: "./api", Run: "^TestReadyzWarns$", Assertion: "readyz-warns",
		},
	}
}

// nameMutants show IDs in the place of names that are on the disk.
func nameMutants() []Mutant {
	return []Mutant{
		{
			Name: "ids-until-the-log-is-applied", Promise: "status", File: "app/health/members.go",
			Old:     "	if m, ok := c.Recorded[id]; ok {\n",
			New:     "	if m, ok := c.Recorded[id]; ok && id == \"\" {\n",
			Package: "./app", Run: "^TestNamesBeforeTheLogIsApplied$", Assertion: "names-on-the-disk: status shows",
		},
		{
			Name: "doctor-knows-no-host-until-the-log-is-applied", Promise: "status", File: "app/health/members.go",
			Old:     "ok && !member && srv.ID != c.Self.ID {",
			New:     "ok && !member && srv.ID == c.Self.ID {",
			Package: "./app", Run: "^TestNamesBeforeTheLogIsApplied$", Assertion: "names-on-the-disk: doctor asks",
		},
	}
}
