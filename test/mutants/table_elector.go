package main

// electorMutants name a leader that is none any more, or a new one too early.
func electorMutants() []Mutant {
	const unit, beside, sim = "./lease/elector", "./lease/elector/sidecar", "./test/simtest"
	return []Mutant{
		{
			Name: "elector-answers-from-memory", Promise: "7", File: "lease/elector/claim.go",
			Old:     "	if now < c.From || now >= c.Until {\n",
			New:     "	if now < c.From {\n",
			Package: unit, Run: "^TestNameIsOverAtItsTime$", Assertion: "elector-deadline",
		},
		{
			Name: "elector-answers-from-memory-when-it-was-cut-off", Promise: "7", File: "lease/elector/claim.go",
			Old:     "	if now < c.From || now >= c.Until {\n",
			New:     "	if now < c.From {\n",
			Package: sim, Run: "^TestElectorOfAPartitionedLeaderNamesNobody$", Assertion: "elector-deadline",
		},
		{
			Name: "elector-counts-from-after-the-read", Promise: "7", File: "lease/elector/witness.go",
			Old:     "		e.keep(v, asked, seen, w.o.Bound)\n",
			New:     "		e.keep(v, max(asked, seen), seen, w.o.Bound)\n",
			Package: unit, Run: "^TestNameCountsFromBeforeTheQuestion$", Assertion: "elector-from-before",
		},
		{
			Name: "elector-names-the-new-at-once", Promise: "7", File: "lease/elector/witness.go",
			Old:     "		from = now + e.wait\n",
			New:     "		from = now\n",
			Package: sim, Run: "^TestElectorsNeverContradict$", Assertion: "elector-exclusive",
		},
		{
			Name: "elector-follower-vouches-by-itself", Promise: "7", File: "raftstore/read.go",
			Old:     "		index, err := s.opts.Forward.ReadIndex(limited, leader)\n",
			New:     "		index, err := s.View().Index(), context.Cause(limited)\n		_ = leader\n",
			Package: sim, Run: "^TestElectorOfAFollowerNamesTheNewLeader$", Assertion: "elector-confirmed",
		},
		{
			Name: "elector-sends-what-is-over", Promise: "7", File: "lease/elector/conn.go",
			Old:     "	c.over.Store(int64(w.Until))\n",
			New:     "	c.over.Store(0)\n",
			Package: unit, Run: "^TestStoppedWhileItAnswers$", Assertion: "elector-deadline",
		},
		{
			Name: "elector-names-a-lease-that-is-over", Promise: "7", File: "lease/elector/witness.go",
			Old:     "Until: asked + min(bound, said.remaining)}",
			New:     "Until: asked + bound}",
			Package: unit, Run: "^TestHolderOfALeaseIsNamed$", Assertion: "elector-remaining",
		},
		{
			Name: "sidecar-believes-what-is-said-of-itself", Promise: "7", File: "lease/elector/sidecar/candidate.go",
			Old:     " && l.Holder != c.o.ID {\n",
			New:     " {\n",
			Package: beside, Run: "^TestNamesItselfByItsOwnLease$", Assertion: "sidecar-names",
		},
		{
			Name: "mirror-replaces-a-later-leader", Promise: "3", File: "lease/elector/kube/record.go",
			Old:     "there > w.Token {\n",
			New:     "there > w.Token && w.Name == \"\" {\n",
			Package: "./lease/elector/kube", Run: "^TestMirrorNeverReplacesALaterLeader$", Assertion: "mirror-token",
		},
		{
			Name: "mirror-writes-over-another-version", Promise: "3", File: "lease/elector/kube/record.go",
			Old:     "p.Metadata.UID, p.Metadata.ResourceVersion = there.Metadata.UID, there.Metadata.ResourceVersion\n",
			New:     "p.Metadata.UID = there.Metadata.UID\n",
			Package: "./lease/elector/kube", Run: "^TestMirrorNeverReplacesALaterLeader$", Assertion: "holderIdentity]: three, want two",
		},
	}
}

// mirrorMutants write over what another election holds.
func mirrorMutants() []Mutant {
	return []Mutant{
		{
			Name: "mirror-overwrites-another-election", Promise: "7", File: "lease/elector/kube/foreign.go",
			Old:     "	if now-seen.since > max(h.duration, m.o.TTL) {\n",
			New:     "	if now >= seen.since {\n",
			Package: "./lease/elector/kube", Run: "^TestMirrorLeavesALivingHolder$", Assertion: "mirror-foreign: write 0",
		},
		{
			Name: "mirror-believes-the-token-alone", Promise: "7", File: "lease/elector/kube/foreign.go",
			Old:     "(!token || named && ours != h.holder)\n",
			New:     "(!token && ours != h.holder || named && token && ours == \"\")\n",
			Package: "./lease/elector/kube", Run: "^TestMirrorSeesWhoTookItOver$", Assertion: "mirror-foreign: ",
		},
	}
}
