package main

// offMutants believe a device that a machine contradicts, or a reading of the power
// that is too old.
func offMutants() []Mutant {
	const unit, fence, life = "./failover", "failover/remedy_fence.go", "failover/remedy_life.go"
	return []Mutant{
		{
			Name: "off-believed-between-two-renewals", Promise: "failover", File: life,
			Old:     "		return w.Nodes[i].LeaseAge >= age\n",
			New:     "		return w.Nodes[i].LeaseAge >= 0\n",
			Package: unit, Run: "^TestBadDays$/^it_renews_its_Lease,_and_its_port_is_hidden$", Assertion: "violation: off was logged of n1, whose kubelet runs",
		},
		{
			Name: "two-readings-in-a-moment", Promise: "failover", File: fence,
			Old:     "	confirmInterval = time.Second\n",
			New:     "	confirmInterval = time.Millisecond\n",
			Package: unit, Run: "^TestPowerLossMovesTheWork$", Assertion: "violation: off was logged of n1 after",
		},
		{
			Name: "a-new-leader-does-not-wait-for-the-lease", Promise: "failover", File: life,
			Old:     "		return w.Nodes[i].LeaseAge >= age\n",
			New:     "		return w.Nodes[i].LeaseAge >= age || w.Nodes[i].Late\n",
			Package: unit, Run: "^TestBadDays$/^another_leader_takes_over_while", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
		{
			Name: "a-contradiction-ends-after-a-minute", Promise: "failover", File: "failover/recover.go",
			Old:     "	case forOperator(m):\n",
			New:     "	case forOperator(m) && !due:\n",
			Package: unit, Run: "^TestBadDays$/^it_was_contradicted,_then_it_falls_silent$", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
		{
			Name: "another-error-hides-a-contradiction", Promise: "failover", File: "failover/remedy.go",
			Old:     "(forOperator(m) || lastReason(m) == ",
			New:     "(lastReason(m) == ",
			Package: unit, Run: "^TestBadDays$/^it_was_contradicted,_then_it_falls_silent$", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
		{
			Name: "the-watch-of-leases-is-believed", Promise: "failover", File: life,
			Old:     "	s.tracker.Renewed(node, renewal)\n",
			New:     "	_ = renewal\n",
			Package: unit, Run: "^TestBadDays$/^the_watch_of_Leases_stands_still$", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
		{
			Name: "power-not-read-again-after-the-wait", Promise: "failover", File: fence,
			Old:     "	case time.Since(r.power.read) > batchLife: //",
			New:     "	case time.Since(r.power.read) > believeLimit: //",
			Package: unit, Run: "^TestBadDays$/^it_is_switched_on_while_its_Lease", Assertion: "violation: off was logged of n1, which has had power for",
		},
		{
			Name: "a-kernel-that-answers-is-no-contradiction", Promise: "failover", File: "failover/probe.go",
			Old:     "return h == HeardAlive || h == HeardKernel }",
			New:     "return h == HeardAlive }",
			Package: unit, Run: "^TestBadDays$/^its_kubelet_hangs,_its_kernel_answers$", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
		{
			Name: "renewals-after-off-are-ignored", Promise: "failover", File: life,
			Old:     "	if renewed := l.renewed(m, late); renewed != \"\" {\n",
			New:     "	if renewed := l.renewed(m, time.Hour); renewed != \"\" {\n",
			Package: unit, Run: "^TestBadDays$/^it_hung_while_it_was_read_off", Assertion: "it is still not so that n1 is stuck",
		},
	}
}

// overlapMutants take a sign that is older than what it is put next to, or wait for what
// they need not.
func overlapMutants() []Mutant {
	const unit, fence = "./failover", "failover/remedy_fence.go"
	return []Mutant{
		{
			Name: "a-late-answer-is-put-next-to-an-old-silence", Promise: "6", File: fence,
			Old:     "s.at.Sub(sent) > knockLimit {\n",
			New:     "s.at.Sub(sent) > believeLimit {\n",
			Package: unit, Run: "^TestDeviceThatAnswersLate$", Assertion: "violation: off was logged of n1, whose kubelet runs",
		},
		{
			Name: "the-kubelet-between-the-readings-is-not-heard", Promise: "6", File: fence,
			Old:     "	if s.heard = answer(); ",
			New:     "	if _ = answer(); ",
			Package: unit, Run: "^TestBadDays$/^its_kubelet_hangs,_its_kernel_answers$", Assertion: "fencing off stuck\", want \"fencing stuck\"",
		},
		{
			Name: "the-second-reading-is-not-looked-at", Promise: "6", File: fence,
			Old:     "m, d); err == nil && p == PowerOff {\n",
			New:     "m, d); err == nil {\n",
			Package: unit, Run: "^TestSecondReadingDecides$", Assertion: "violation: off was logged of n1 after",
		},
		{
			Name: "a-renewal-next-to-the-readings-is-missed", Promise: "6", File: "failover/target.go",
			Old:     "	reading.Go(func() { lease = t.heartbeat(ctx, m.Node) })\n",
			New:     "	reading.Go(func() { lease = ctx.Err() })\n",
			Package: unit, Run: "^TestFencingOverlaps$", Assertion: "\"get lease\", want 1",
		},
		{
			Name: "a-deaf-device-confirms", Promise: "6", File: fence,
			Old:     "	case time.Since(r.power.read) > batchLife: //",
			New:     "	case waited > batchLife: //",
			Package: unit, Run: "^TestDeafDeviceConfirmsNothing$", Assertion: "violation: off was logged of n1",
		},
		{
			Name: "the-kubelet-is-asked-after-the-readings", Promise: "failover", File: fence,
			Old:     "	answer := t.knocking(ctx, knockLimit)\n	if !pause(limited, confirmInterval) {\n		return s, PowerOff, limited.Err()\n	}\n",
			New:     "	if !pause(limited, confirmInterval) {\n		return s, PowerOff, limited.Err()\n	}\n	answer := t.knocking(ctx, knockLimit)\n",
			Package: unit, Run: "^TestFencingOverlaps$", Assertion: "overlap: off was logged",
		},
		{
			Name: "a-vote-is-seen-at-the-next-tick", Promise: "failover", File: "failover/remedy.go",
			Old:     " || hear != heard {\n",
			New:     " || hear < heard-99 {\n",
			Package: unit, Run: "^TestVoteEndsTheWait$", Assertion: "vote-ends-wait:",
		},
	}
}

// returningMutants believe "off" of a machine that gives signs of life again.
func returningMutants() []Mutant {
	const unit, life = "./failover", "failover/remedy_life.go"
	return []Mutant{
		{
			Name: "a-new-leader-takes-a-lease-for-silent", Promise: "6", File: "failover/remedy_move.go",
			Old:     "	case !p.gone && !r.signs.silent(m):\n",
			New:     "	case !p.gone && !r.signs.silent(m) && r.tries > 99:\n",
			Package: unit, Run: "^TestMachineThatIsHeardAgainKeepsItsPods$/^its_Lease_alone", Assertion: "pods of a machine that is heard were deleted",
		},
		{
			Name: "a-kubelet-that-answers-again-is-not-asked", Promise: "6", File: "failover/remedy_move.go",
			Old:     "	alive, err := r.signs.life(m, answer(), 0)\n",
			New:     "	_ = answer\n	alive, err := r.signs.life(m, HeardNothing, 0)\n",
			Package: unit, Run: "^TestMachineThatIsHeardAgainKeepsItsPods$/^its_kernel_to_off_30s$", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
		{
			Name: "peers-that-hear-it-again-do-not-count", Promise: "6", File: life,
			Old:     "	case answers == 0:\n",
			New:     "	case answers <= voters:\n",
			Package: unit, Run: "^TestPeersThatHearAMachineAreWaitedFor$", Assertion: "violation: deleted pod s-1 while n1 runs it",
		},
		{
			Name: "ready-that-has-not-changed-is-a-sign", Promise: "6", File: life,
			Old:     "k.Changed > offSince(m) {\n",
			New:     "k.Changed >= 0 && offSince(m) < math.MaxInt64 {\n",
			Package: unit, Run: "^TestReadyThatHasNotChangedIsNoSign$", Assertion: "it is still not so that",
		},
		{
			Name: "ready-that-has-changed-is-no-sign", Promise: "6", File: life,
			Old:     "k.Changed > offSince(m) {\n",
			New:     "k.Changed > math.MaxInt64-1 && offSince(m) > 0 {\n",
			Package: unit, Run: "^TestMachineThatBecomesReadyKeepsItsPods$", Assertion: "it is still not so that n1 is stuck",
		},
		{
			Name: "a-machine-with-power-stays-out-of-service", Promise: "6", File: "failover/remedy_move.go",
			Old:     "	case awake.on:\n",
			New:     "	case awake.on && false:\n",
			Package: unit, Run: "^TestTaintGoesWhenTheDeviceReadsPower$", Assertion: "it is still not so that the taint is gone",
		},
		{
			Name: "what-it-showed-before-off-contradicts-off", Promise: "6", File: "failover/remedy_fence.go",
			Old:     "	if !r.power.off && r.judge.Well(m.UID) {\n",
			New:     "	if r.judge.Well(m.UID) {\n",
			Package: unit, Run: "^TestMachineThatBootsAsItIsSwitchedOff$", Assertion: "it is still not so that all is well",
		},
		{
			Name: "a-machine-that-kept-its-volumes-is-waited-for", Promise: "6", File: "failover/recover.go",
			Old:     "	if m.State != fsm.RemDetached && wasTainted(m) &&",
			New:     "	if m.State != fsm.RemDetached &&",
			Package: unit, Run: "^TestMachineThatIsBackBeforeItsTaint$", Assertion: "it is still not so that its remediation has ended",
		},
		{
			Name: "a-machine-that-lives-stays-out-of-service", Promise: "6", File: "failover/remedy.go",
			Old:     "		if err := r.readmit(ctx, m); err != nil {\n",
			New:     "		if err := error(nil); err != nil {\n",
			Package: unit, Run: "^TestMachineThatIsHeardAgainKeepsItsPods$/^its_kubelet_to_tainted_0s$", Assertion: "returning: a machine that is heard stays out of service",
		},
	}
}

// reopenedMutants act on a remediation that was found open before they know whether
// its machine works.
func reopenedMutants() []Mutant {
	const unit = "./failover"
	return []Mutant{
		{
			Name: "a-new-leader-does-not-look-first", Promise: "6", File: "failover/remedy_life.go",
			Old:     "	return gone || ",
			New:     "	return gone || age > 0 || ",
			Package: unit, Run: "^TestReopenedRemediationOfAMachineThatWorks$/^to_off_heard$", Assertion: "reopened: a machine that works was switched off",
		},
		{
			Name: "a-machine-that-peers-do-not-hear-is-switched-off", Promise: "6", File: "failover/judge.go",
			Old:     "	return n != nil && f.well(n)\n",
			New:     "	return n != nil && f.well(n) && n.heard()\n",
			Package: unit, Run: "^TestReopenedRemediationOfAMachineThatWorks$/^to_tainted_hidden", Assertion: "reopened: a machine that works was switched off",
		},
		{
			Name: "a-founding-forgets-that-remediations-are-old", Promise: "6", File: "fsm/refound.go",
			Old:     "	d.holdRemediations(r.UnixMillis)\n",
			New:     "	_ = d.holdRemediations\n",
			Package: unit, Run: "^TestFoundingLeavesRemediationsToAnOperator$/^tainted", Assertion: "reopened: a machine that works was switched off",
		},
		{
			Name: "what-a-founding-holds-is-tried-again", Promise: "6", File: "failover/remedy.go",
			Old:     "	return contradicted(m) || m.State == fsm.RemStuck && lastReason(m) == fsm.HeldByFounding\n",
			New:     "	return contradicted(m)\n",
			Package: unit, Run: "^TestFoundingLeavesRemediationsToAnOperator$/^tainted", Assertion: "reopened: a machine that works was switched off",
		},
	}
}

// endedMutants act under a proof or a leadership that is over, or take a machine for
// recovered that never was off.
func endedMutants() []Mutant {
	return []Mutant{
		{
			Name: "back-without-a-boot-has-recovered", Promise: "6", File: "failover/remedy_fence.go",
			Old:     "	case n.BootID != r.target.boot:\n		return r.comeBack(ctx, m, n)\n	}\n",
			New:     "	default:\n		return r.comeBack(ctx, m, n)\n	}\n",
			Package: "./failover", Run: "^TestBackWithoutABootIsNoRecovery$", Assertion: "no-boot: ",
		},
		{
			Name: "a-write-begins-on-an-old-proof", Promise: "3", File: "failover/cluster_controller.go",
			Old:     "	if age := time.Since(t0); age > proofLife {\n",
			New:     "	if age := time.Since(t0); age > time.Hour {\n",
			Package: "./failover", Run: "^TestNoWriteBeginsOnAnOldProof$", Assertion: "old-proof: ",
		},
		{
			Name: "an-ended-leadership-proposes", Promise: "3", File: "raftstore/propose.go",
			Old:     "	if l.ended.Load() {\n		return fsm.Result{}, errLeadershipEnded\n	}\n",
			New:     "",
			Package: "./test/simtest", Run: "^TestEndedLeadershipProposesNothing$", Assertion: "ended-leadership: ",
		},
		{
			Name: "leadership-goes-to-a-silent-voter", Promise: "7", File: "raftstore/members.go",
			Old:     "	if s.net.acks.SilentFor(raft.ServerID(to.ID)) > 2*s.opts.Timing.Heartbeat {\n",
			New:     "	if s.net.acks.SilentFor(raft.ServerID(to.ID)) > 2_000*s.opts.Timing.Heartbeat {\n",
			Package: "./test/simtest", Run: "^TestTransferToASilentVoterIsRefused$", Assertion: "silent-successor: ",
		},
	}
}

// whichMachineMutants compare a device's machine with less than is known of it.
func whichMachineMutants() []Mutant {
	return []Mutant{
		{
			Name: "a-new-leader-tells-a-name-alone", Promise: "6", File: "failover/remedy.go",
			Old:     "Node: m.Node, SystemUUID: m.SystemUUID}\n",
			New:     "Node: m.Node}\n",
			Package: "./failover", Run: "^TestDeviceIsToldWhichMachineDied$/^to_off_the_Node_is_gone$", Assertion: "which-machine: ",
		},
		{
			Name: "a-missing-uuid-is-not-told", Promise: "failover", File: "failover/fence/redfish.go",
			Old:     "		r.mute.Store(at, true)\n",
			New:     "",
			Package: fenceUnit, Run: "^TestWhatIsNotComparedIsSaid$", Assertion: "uncompared: ",
		},
	}
}

// ownPeerMutants do not find the peers of Trivet that run on kube nodes.
func ownPeerMutants() []Mutant {
	const unit, run = "./failover", "^TestLivingPeerIsFoundOnItsKubeNode$"
	return []Mutant{
		{
			Name: "names-of-peers-are-not-resolved", Promise: "failover", File: "failover/peer_hosts.go",
			Old:     "		if all = append(all, found...); len(found)",
			New:     "		if len(found)",
			Package: unit, Run: run, Assertion: "own-quorum: the rail says \"\", want \"peer host-b runs on it",
		},
		{
			Name: "a-peer-without-an-address-runs-nowhere", Promise: "failover", File: "failover/guardrail_cluster.go",
			Old:     "			if len(p.unknown) > 0 {\n",
			New:     "			if len(p.unknown) > 99 {\n",
			Package: unit, Run: run, Assertion: "own-quorum: the rail says \"\", want \"peer host-b may run on it",
		},
	}
}

// podMutants delete pods on less than a fresh proof, or those that finalizers hold
// again and again.
func podMutants() []Mutant {
	const unit, fence, move = "./failover", "failover/remedy_fence.go", "failover/remedy_move.go"
	return []Mutant{
		{
			Name: "proof-without-the-boot-id", Promise: "failover", File: move,
			Old:     "	case p.node.BootID != r.target.boot:\n",
			New:     "	case p.node.BootID != r.target.boot && p.node.UID != m.UID:\n",
			Package: unit, Run: "^TestBootIDEndsAProof$/^between", Assertion: "boot-id: a machine that had booted was not fenced again",
		},
		{
			Name: "recheck-without-the-boot-id", Promise: "failover", File: fence,
			Old:     "	if n.BootID != m.BootID {\n",
			New:     "	if n.BootID != m.BootID && n.UID != m.UID {\n",
			Package: unit, Run: "^TestBootIDEndsAProof$/^before", Assertion: "boot-id: a machine that has booted since was acted on",
		},
		{
			Name: "pods-listed-before-the-power-is-read", Promise: "failover", File: move,
			Old: "	limited, cancel := context.WithTimeout(ctx, fenceLimit)\n	power, err := d.Power(",
			New: "	if between != nil {\n		if err := between(ctx); err != nil {\n			return proof{}, err\n		}\n		between = nil\n	}\n" +
				"	limited, cancel := context.WithTimeout(ctx, fenceLimit)\n	power, err := d.Power(",
			Package: unit, Run: "^TestPodsAreDeletedOnAFreshProof$", Assertion: "fresh-proof: a pod was deleted as it was listed before",
		},
		{
			Name: "a-proof-for-hours", Promise: "failover", File: move,
			Old:     "	batchLife = 5 * time.Second\n",
			New:     "	batchLife = 5 * time.Hour\n",
			Package: unit, Run: "^TestProofEndsInTheMiddleOfABatch$", Assertion: "violation: deleted pod more-",
		},
		{
			Name: "a-proof-for-fifty-thousand-pods", Promise: "failover", File: move,
			Old:     "	maxBatch  = 50\n",
			New:     "	maxBatch  = 50_000\n",
			Package: unit, Run: "^TestPodsAreDeletedOnAFreshProof$", Assertion: "fresh-proof: 51 deletions after the power was read",
		},
		{
			Name: "finalizers-starve-other-pods", Promise: "failover", File: move,
			Old:     "func(p Pod) bool { return p.Finalizing })\n",
			New:     "func(p Pod) bool { return p.Finalizing && p.Done })\n",
			Package: unit, Run: "^TestPodsThatFinalizersHold$", Assertion: "finalizers: ",
		},
		{
			Name: "no-pause-while-pods-are-left", Promise: "failover", File: move,
			Old:     "		return wait(idle)\n",
			New:     "		return nil\n",
			Package: unit, Run: "^TestPodsThatFinalizersHold$", Assertion: "finalizers: the power was read",
		},
		{
			Name: "finalizers-are-not-waited-for", Promise: "failover", File: move,
			Old:     "	case len(left) > 0:\n		return r.linger(ctx, m, left)\n	}\n	return r.move(",
			New:     "	case len(left) > 0 && !left[0].Finalizing:\n		return r.linger(ctx, m, left)\n	}\n	return r.move(",
			Package: unit, Run: "^TestPodsThatFinalizersHold$", Assertion: "finalizers: it is",
		},
	}
}

// suspicionMutants hold machines for dead that are not, or do not say why nothing is
// done.
func suspicionMutants() []Mutant {
	const unit = "./failover"
	return []Mutant{
		{
			Name: "a-stalled-watch-of-nodes-is-believed", Promise: "failover", File: "failover/tracker.go",
			Old:     "k.node.UID != n.UID || n.Ready != fsm.KubeTrue {\n",
			New:     "k.node.UID != n.UID || n.Ready != fsm.KubeUnknown {\n",
			Package: unit, Run: "^TestBadDays$/^the_watch_of_Nodes_stands_still$", Assertion: "stale-watch: a machine that is well was acted on",
		},
		{
			Name: "nothing-is-read-before-the-intent", Promise: "failover", File: "failover/cluster_controller.go",
			Old:     "	if suspect, why := s.judge.Still(n.UID); !suspect {\n		return now, errors.New(why)\n",
			New:     "	if suspect, why := s.judge.Still(n.UID); !suspect && why == \"\" {\n		return now, errors.New(why)\n",
			Package: unit, Run: "^TestBadDays$/^the_watch_of_Leases_stands_still,_and", Assertion: "stale-watch: a machine that is well was acted on",
		},
		{
			Name: "a-rack-that-is-cut-off-is-switched-off", Promise: "failover", File: "failover/guardrail_cluster.go",
			Old:     "	if len(names) < 2 {\n",
			New:     "	if len(names) > 0 {\n",
			Package: unit, Run: "^TestBadDays$/^a_rack_is_cut_off", Assertion: "cut-off: machines that all peers hear were switched off",
		},
		{
			Name: "few-kube-nodes-are-not-told", Promise: "failover", File: "failover/guardrail_cluster.go",
			Old:     "	if allowed == 0 && len(names) == 1 {\n",
			New:     "	if allowed < 0 && len(names) == 1 {\n",
			Package: unit, Run: "^TestFewKubeNodesAreNamed$", Assertion: "few-nodes: of 2",
		},
	}
}

// deviceMutants take a made-up off for one, or the machine of another kube node.
func deviceMutants() []Mutant {
	return []Mutant{
		{
			Name: "a-missing-machine-counts-as-off", Promise: "failover", File: "failover/fence/nodes.go",
			Old:     "	case \"missing_as_off\":\n",
			New:     "	case \"missing\":\n",
			Package: fenceUnit, Run: "^TestOptionsThatMakeUpAnOff$", Assertion: "made-up-off: missing_as_off",
		},
		{
			Name: "one-power-strip-is-enough", Promise: "failover", File: "failover/fence/group.go",
			Old:     "	for _, d := range g.members {\n		p, err := d.Power(ctx, m)\n",
			New:     "	for _, d := range g.members[:1] {\n		p, err := d.Power(ctx, m)\n",
			Package: fenceUnit, Run: "^TestGroupIsOffWhenAllAre$", Assertion: "group-all-off: the second is on: off",
		},
		{
			Name: "machines-compared-within-a-device-alone", Promise: "failover", File: "failover/fence/same.go",
			Old:     "			if other.kube != n.kube && !told",
			New:     "			if other.kube != n.kube && other.spec == n.spec && !told",
			Package: fenceUnit, Run: "^TestOneMachineOfTwoKubeNodes$/^across_devices$", Assertion: "one-machine: told",
		},
		{
			Name: "aliases-of-addresses-differ", Promise: "failover", File: "failover/fence/same.go",
			Old:     "	case \"ipaddr\", \"ipaddress\", ",
			New:     "	case \"ipaddr1\", \"ipaddress1\", ",
			Package: fenceUnit, Run: "^TestOneMachineOfTwoKubeNodes$/^ipaddress$", Assertion: "one-machine: told",
		},
		{
			Name: "redfish-password-goes-to-another-host", Promise: "failover", File: "failover/fence/redfish.go",
			Old:     "ref.Host != base.Host || ",
			New:     "",
			Package: fenceUnit, Run: "^TestRedfishStrangers$", Assertion: "came to another server",
		},
	}
}
