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
			Old:     "t.peers.version < eventsVersion || ",
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
	}
}
