package main

// eventMutants lose events, or tell one peer others than the next.
func eventMutants() []Mutant {
	const ring, derive, unit = "fsm/event_ring.go", "fsm/event_derive.go", "./fsm"
	return []Mutant{
		{
			Name: "views-share-the-open-segment", Promise: "events", File: ring,
			Old:     "	open := make([]storedEvent, len(r.open)+1)\n",
			New:     "	open := append(r.open, e)\n",
			Package: unit, Run: "^TestEventRingAsAList$", Assertion: "of a copy was overwritten",
		},
		{
			Name: "events-for-an-older-member", Promise: "8", File: derive,
			Old:     "!t.peers.version2() || ",
			New:     "",
			Package: unit, Run: "^TestEventsNeedTheLogVersion$", Assertion: "was recorded in a cluster of log version",
		},
		{
			Name: "snapshot-without-dropped-events", Promise: "events", File: ring,
			Old:     "		d.events.forgotten = w.id()\n",
			New:     "",
			Package: unit, Run: "^TestEventsInSnapshots$", Assertion: "after a snapshot the ring dropped up to",
		},
		{
			Name: "events-of-one-entry-share-an-id", Promise: "events", File: derive,
			Old:     "		e.ID.Seq = last.ID.Seq + 1\n",
			New:     "		e.ID.Seq = last.ID.Seq\n",
			Package: unit, Run: "^TestEventsOfOneEntry$", Assertion: "follows event",
		},
		{
			Name: "catching-up-loses-events", Promise: "events", File: "api/events/reader.go",
			Old:     "		if made := render(e); r.filter.wants(made) && b.add(made) {\n			break\n",
			New:     "		if made := render(e); r.filter.wants(made) && b.add(made) {\n			r.at = view.LastEvent()\n			break\n",
			Package: "./api/events", Run: "^TestEveryReaderSeesEveryEventOnce$", Assertion: "exactly-once:",
		},
		{
			Name: "a-busy-tenth-of-a-second-loses-an-event", Promise: "events", File: "api/events/hub.go",
			Old:     "	slices.Reverse(fresh)\n",
			New:     "	slices.Reverse(fresh)\n	fresh = fresh[len(fresh)/4:]\n",
			Package: "./test/simtest", Run: "^TestEventsReachEveryClientOnce$", Assertion: "events-once:",
		},
		{
			Name: "dead-follower-hands-events-out", Promise: "events", File: "api/events/hub.go",
			Old:     "	if ctx.Err() != nil {\n		return // the readers are another follower's\n	}\n",
			New:     "",
			Package: "./api/events", Run: "^TestDeadFollower", Assertion: "dead-follower:",
		},
		{
			Name: "strangers-write-events", Promise: "attack", File: "api/audit.go",
			Old:     "				if made.proved && report != nil {\n",
			New:     "				if report != nil {\n",
			Package: "./api", Run: "^TestAuditAsEvents$", Assertion: "audit-events: told of callers who proved nothing",
		},
		{
			Name: "closing-without-a-quorum-has-a-later-time", Promise: "events", File: "app/health/events.go",
			Old:     "Action: \"closed-alone\", Millis: c.at.UnixMilli(),",
			New:     "Action: \"closed-alone\", Millis: f.now.UnixMilli(),",
			Package: "./app/health", Run: "^TestClosingWithoutAQuorumIsTold$", Assertion: "is told to have happened at",
		},
		{
			Name: "readers-see-the-audit", Promise: "access", File: "api/events/event.go",
			Old:     "	if adminOnly(t) && !f.Admin {\n",
			New:     "	if adminOnly(t) && !f.Admin && len(f.Topics) == 0 {\n",
			Package: "./api/events", Run: "^TestFilters$", Assertion: "a reader asks for it: events are",
		},
	}
}

// positionMutants take one event, or one value, for another of the same number.
func positionMutants() []Mutant {
	const unit = "./fsm"
	return []Mutant{
		{
			Name: "tail-of-a-recovery-keeps-its-event-ids", Promise: "events", File: "fsm/refound.go",
			Old:     "		d.events.renumber(certain, d.cluster.Incarnation)\n",
			New:     "",
			Package: "./api/events", Run: "^TestResetWhereATailIsNotProven$", Assertion: "tail-not-proven: at",
		},
		{
			Name: "tail-of-a-recovery-keeps-its-versions", Promise: "3", File: "fsm/refound.go",
			Old:     "	d.values.renumber(known, d.granted())\n",
			New:     "	_ = known\n",
			Package: unit, Run: "^TestFoundingRenamesWhatMayNotHaveBeenCommitted$", Assertion: "renamed-tail:",
		},
		{
			Name: "recover-takes-its-tail-for-proven", Promise: "events", File: "app/datadir/refound.go",
			Old:     "Uncommitted: r.Uncommitted, UnixMillis",
			New:     "UnixMillis",
			Package: "./app/datadir", Run: "^TestRecoverRenamesWhatIsNotProven$", Assertion: "renamed-tail:",
		},
		{
			Name: "position-compared-by-index-alone", Promise: "events", File: "api/events/reader.go",
			Old:     "		return e.ID() == id\n",
			New:     "		return e.ID().Index == id.Index\n",
			Package: "./api/events", Run: "^TestResetWhereATailIsNotProven$", Assertion: "tail-not-proven: at",
		},
		{
			Name: "event-ids-ordered-by-index-alone", Promise: "events", File: "fsm/event.go",
			Old:     "cmp.Or(cmp.Compare(id.Incarnation, other.Incarnation), ",
			New:     "cmp.Or(",
			Package: unit, Run: "^TestEventIDsOfALaterFoundingAreLater$", Assertion: "later-founding:",
		},
	}
}
