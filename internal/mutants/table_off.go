package main

// offMutants believe a device that a machine contradicts, or act on a reading of the
// power that is too old.
func offMutants() []Mutant {
	const unit, fence, move = "./failover", "failover/remedy_fence.go", "failover/remedy_move.go"
	return []Mutant{
		{
			Name: "off-believed-between-two-renewals", Promise: "failover", File: fence,
			Old:     "		return w.Nodes[i].LeaseAge >= age\n",
			New:     "		return w.Nodes[i].LeaseAge >= 0\n",
			Package: unit, Run: "^TestBadDays$/^it_renews_its_Lease,_and_its_port_is_hidden$", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
		{
			Name: "a-new-leader-does-not-wait-for-the-lease", Promise: "failover", File: fence,
			Old:     "		return w.Nodes[i].LeaseAge >= age\n",
			New:     "		return w.Nodes[i].LeaseAge >= age || w.Nodes[i].Late\n",
			Package: unit, Run: "^TestBadDays$/^another_leader_takes_over_while", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
		{
			Name: "a-contradiction-ends-after-a-minute", Promise: "failover", File: "failover/recover.go",
			Old:     "	case contradicted(m):\n",
			New:     "	case contradicted(m) && !due:\n",
			Package: unit, Run: "^TestBadDays$/^it_was_contradicted,_then_it_falls_silent$", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
		{
			Name: "another-error-hides-a-contradiction", Promise: "failover", File: "failover/remedy.go",
			Old:     "(contradicted(m) || lastReason(m) == ",
			New:     "(lastReason(m) == ",
			Package: unit, Run: "^TestBadDays$/^it_was_contradicted,_then_it_falls_silent$", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
		{
			Name: "the-watch-of-leases-is-believed", Promise: "failover", File: fence,
			Old:     "	s.tracker.Renewed(node, renewal)\n",
			New:     "	_ = renewal\n",
			Package: unit, Run: "^TestBadDays$/^the_watch_of_Leases_stands_still$", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
		{
			Name: "power-not-read-again-after-the-wait", Promise: "failover", File: fence,
			Old:     "	case waited > batchLife: //",
			New:     "	case waited > believeLimit: //",
			Package: unit, Run: "^TestBadDays$/^it_is_switched_on_while_its_Lease", Assertion: "violation: off was logged of n1, which has had power for",
		},
		{
			Name: "a-kernel-that-answers-is-no-contradiction", Promise: "failover", File: "failover/probe.go",
			Old:     "return h == HeardAlive || h == HeardKernel }",
			New:     "return h == HeardAlive }",
			Package: unit, Run: "^TestBadDays$/^its_kubelet_hangs,_its_kernel_answers$", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
		{
			Name: "renewals-after-off-are-ignored", Promise: "failover", File: move,
			Old:     "	if alive := r.renewed(m, 0); alive != \"\" {\n",
			New:     "	if alive := r.renewed(m, time.Hour); alive != \"\" {\n",
			Package: unit, Run: "^TestBadDays$/^it_hung_while_it_was_read_off", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
	}
}
