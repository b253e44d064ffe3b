package main

// leaseSimMutants are faults of leases that histories of many clients show, while
// peers are lost: none of them is seen in one client's own order.
func leaseSimMutants() []Mutant {
	const sim, run, says = "./test/simtest", "^TestLeasesAreLinearizable$", "is Illegal"
	return []Mutant{
		{
			Name: "histories-token-not-compared", Promise: "lease", File: "fsm/lease_steps.go",
			Old:     "	case l.Token != g.token:\n",
			New:     "	case l.Token.IsZero():\n",
			Package: sim, Run: run, Assertion: says,
		},
		{
			Name: "histories-renewal-revives", Promise: "lease", File: "fsm/lease_steps.go",
			Old:     "	l, res, ok := t.ownLease(s.Name, s.Holder, s.Token)\n",
			New:     "	l, res, ok := t.ownLease(s.Name, s.Holder, s.Token)\n	if !ok && !s.Release && res.Code == Expired && l.Token == s.Token {\n		l.Holder, l.TTL, res, ok = s.Holder, 2e9, Result{}, true\n	}\n",
			Package: sim, Run: run, Assertion: says,
		},
		{
			Name: "histories-early-end-with-a-new-leader", Promise: "lease", File: "raftstore/lead.go",
			Old:     "clock: s.View().Now(), clockAt: time.Now()}",
			New:     "clock: s.View().Now().Add(5 * time.Second), clockAt: time.Now()}",
			Package: sim, Run: run, Assertion: says,
		},
		{
			Name: "histories-a-retry-is-another-request", Promise: "lease", File: "lease/service.go",
			Old:     "	if a.Request != \"\" {\n		client = requestID(",
			New:     "	if a.Request != \"\" && n > 0 {\n		client = requestID(",
			Package: sim, Run: run, Assertion: says,
		},
		{
			Name: "histories-a-write-is-made-twice", Promise: "lease", File: "lease/values.go",
			Old:     "	res, err := s.o.Do.Do(ctx, request, c)\n",
			New:     "	res, err := s.o.Do.Do(ctx, \"\", c)\n",
			Package: sim, Run: run, Assertion: says,
		},
		{
			Name: "histories-read-from-this-peer", Promise: "lease", File: "lease/read.go",
			Old:     "	if r == Stale {\n",
			New:     "	if r == Stale || s.o.MinTTL > 0 {\n",
			Package: sim, Run: run, Assertion: says,
		},
	}
}
