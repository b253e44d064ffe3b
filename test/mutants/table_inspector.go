package main

import "slices"

// inspectorMutants break the way of an introspection from start to finish.
func inspectorMutants() []Mutant {
	return slices.Concat(claimMutants(), stopMutants(), callbackMutants(), poisonMutants(), startMutants(), workerMutants(), sweepMutants(), hookMutants(), discoveryMutants(), identityMutants(), otherMachineMutants(), hungIronicMutants(), firmwareMutants())
}

// claimMutants break the node lock and what ends it.
func claimMutants() []Mutant {
	return []Mutant{
		{
			Name:      "guard-taken-out",
			Promise:   "3",
			File:      "inspector/guard.go",
			Old:       "if check, ok := ctx.Value(guardKey{}).(func() error); ok {",
			New:       "if check, ok := ctx.Value(guardKey{}).(func() error); ok && check == nil {",
			Package:   "./test/simtest",
			Run:       "^TestWorkersPausedPastTheirClaims$",
			Assertion: "claim-held:",
		},
		{
			Name:      "worker-trusts-an-old-session",
			Promise:   "3",
			File:      "inspector/job_effect.go",
			Old:       "left <= 0 {",
			New:       "left <= -time.Hour {",
			Package:   "./test/simtest",
			Run:       "^TestWorkersPausedPastTheirClaims$",
			Assertion: "claim-held:",
		},
		{
			Name:      "claims-outlive-their-session",
			Promise:   "4",
			File:      "fsm/member_session.go",
			Old:       "\tt.loseAll(id)\n",
			New:       "",
			Package:   "./test/simtest",
			Run:       "^TestPeersLostAmidWork$",
			Assertion: "no-stuck:",
		},
		{
			Name:      "claim-left-behind-by-a-stop",
			Promise:   "4",
			File:      "inspector/worker_pool.go",
			Old:       "	write, end := p.stop.commit()\n	defer end()\n	res, err := p.o.Session.DoIn(write,",
			New:       "	res, err := p.o.Session.DoIn(ctx,",
			Package:   "./inspector",
			Run:       "^TestClaimUnderWayWhenThePoolStops$",
			Assertion: "the pool has stopped and holds",
		},
		{
			Name:      "leaves-in-the-midst-of-its-work",
			Promise:   "4",
			File:      "app/core.go",
			Old:       "for held := c.held(); !workers.Idle() || held > 0; held = c.held() {",
			New:       "for held := c.held(); held > len(c.Store.View().Claims()); {",
			Package:   "./test/simtest",
			Run:       "^TestPeerLeavesAmidWork$",
			Assertion: "it rests and holds",
		},
		{
			Name:      "attempts-without-end",
			Promise:   "4",
			File:      "fsm/node_queue.go",
			Old:       "if r.Attempts >= MaxAttempts {",
			New:       "if r.Attempts > 2*MaxAttempts {",
			Package:   "./fsm",
			Run:       "^TestThirdLostClaimEndsTheNodeInError$",
			Assertion: "is free after 3 attempts",
		},
	}
}

// stopMutants break what workers do while their peer stops.
func stopMutants() []Mutant {
	return []Mutant{
		{
			Name:      "stopping-worker-gives-its-claim-back-and-goes-on",
			Promise:   "3",
			File:      "inspector/job.go",
			Old:       "func() error { return j.node.allowed(ctx) }",
			New:       "func() error { if !j.pool.open { j.out.giveBack(); return nil }; return j.node.allowed(ctx) }",
			Package:   "./test/simtest",
			Run:       "^TestOrderlyStop$",
			Args:      []string{"-count=3"}, // one run in sixty stops no worker before an effect
			Assertion: "claim-held:",
		},
	}
}

// callbackMutants break what is promised of a ramdisk's data.
func callbackMutants() []Mutant {
	return []Mutant{
		{
			Name:    "deja-vu-goes-on",
			Promise: "5",
			File:    "inspector/job_process.go",
			Old: `		// Déjà vu: the state machine ends the node in error and says why.
		return j.out.advance(fsm.Advance{Event: fsm.EventProcess, Consume: true})
	case fsm.NodeWaiting`,
			New:       "\tcase fsm.NodeWaiting",
			Package:   "./test/simtest",
			Run:       "^TestPeersLostAmidWork$",
			Assertion: "applied-once:",
		},
		{
			Name:      "deja-vu-not-told",
			Promise:   "5",
			File:      "fsm/node_transition.go",
			Old:       "{NodeProcessing, EventProcess, later, to(NodeError)},",
			New:       "{NodeProcessing, EventProcess, later, to(NodeProcessing)},",
			Package:   "./test/simtest",
			Run:       "^TestPeersLostAmidWork$",
			Assertion: "no-stuck:",
		},
		{
			Name:      "repeat-taken-for-a-stranger",
			Promise:   "5",
			File:      "inspector/callback.go",
			Old:       "candidate := errors.As(lookUp, &unknown) || lookUp == nil",
			New:       "candidate := errors.As(lookUp, &unknown) && node == \"\" || lookUp == nil",
			Package:   "./test/simtest",
			Run:       "^TestLostAnswer$",
			Assertion: "same-answer:",
		},
		{
			Name:      "ended-delivery-before-the-active-node",
			Promise:   "4",
			File:      "inspector/callback.go",
			Old:       "candidate := errors.As(lookUp, &unknown) || lookUp == nil && node == active ||",
			New:       "candidate := errors.As(lookUp, &unknown) || lookUp == nil && node != \"\" ||",
			Package:   "./inspector",
			Run:       "^TestSameBytesOfAnotherNode$",
			Assertion: "first: answered for",
		},
		{
			Name:      "repeat-not-joined",
			Promise:   "5",
			File:      "fsm/node_introspection.go",
			Old:       "if c.Event == EventProcess && rec.Delivered.Document == c.Document.Hash {",
			New:       "if c.Event == EventProcess && rec.Delivered.Document == c.Document.Hash && rec.Delivered.Request == 0 {",
			Package:   "./fsm",
			Run:       "^TestRepeatedCallbackJoinsTheFirst$",
			Assertion: "Can not transition from state 'finished' on event 'process'",
		},
		{
			Name:      "answer-after-the-power-is-off",
			Promise:   "5",
			File:      "inspector/job_process.go",
			Old:       "fsm.Mark{Hook: hookPowerOff, Answer: end.Answer, Processed: end.Processed}",
			New:       "fsm.Mark{Hook: hookPowerOff, Processed: end.Processed}",
			Package:   "./inspector",
			Run:       "^TestAnswerBeforePowerOff$",
			Assertion: "switched off in processing, answered {Status:0",
		},
	}
}

// poisonMutants break what keeps a document from ending one peer after another.
func poisonMutants() []Mutant {
	return []Mutant{
		{
			Name:      "notes-not-told",
			Promise:   "4",
			File:      "fsm/member_session.go",
			Old:       "		t.learn(old, c.Unfinished)\n",
			New:       "",
			Package:   "./test/simtest",
			Run:       "^TestPoisonedDocument$",
			Assertion: "without naming the hook",
		},
		{
			Name:      "poison-met-twice",
			Promise:   "4",
			File:      "inspector/job_process.go",
			Old:       "if !slices.Contains(before, a.claim.Peer) {",
			New:       "if !slices.Contains(before, a.claim.Peer) || v.Index() > 0 {",
			Package:   "./test/simtest",
			Run:       "^TestPoisonedDocument$",
			Assertion: "poison-once:",
		},
		{
			Name:      "poison-not-left-to-others",
			Promise:   "4",
			File:      "inspector/worker_pool.go",
			Old:       "others := p.met(v, r) && unmet(r, sessions)",
			New:       "others := false",
			Package:   "./inspector",
			Run:       "^TestWhoHasMetADocumentLeavesItToOthers$",
			Assertion: "the peer that lost the document takes it again",
		},
		{
			Name:    "panic-ends-the-process",
			Promise: "4",
			File:    "inspector/hook_run.go",
			Old:     "if p := recover(); p != nil {",
			New:     "if p := any(nil); p != nil {",
			Package: "./inspector", Run: "^TestHooksFail$", Assertion: "panic: boom",
		},
	}
}

// startMutants break what a worker owes the node it starts.
func startMutants() []Mutant {
	return []Mutant{
		{
			Name:      "macs-saved-after-power-on",
			Promise:   "4",
			File:      "inspector/job_start.go",
			Old:       "if !sameAttributes(attributes, rec.Attributes) {",
			New:       "if !sameAttributes(attributes, attributes) {",
			Package:   "./test/simtest",
			Run:       "^TestKnownBeforePower$",
			Assertion: "known-before-power:",
		},
		{
			Name:      "start-carried-out-twice",
			Promise:   "4",
			File:      "inspector/job_start.go",
			Old:       "if rec.State != fsm.NodeStarting {",
			New:       "if rec.State != fsm.NodeStarting && rec.State != fsm.NodeWaiting {",
			Package:   "./inspector",
			Run:       "^TestStartMetAgain$",
			Assertion: "0 requests, calls [node",
		},
		{
			Name:      "node-not-read-again",
			Promise:   "3",
			File:      "inspector/job_effect.go",
			Old:       "if began.Sub(t.read) < freshFor {",
			New:       "if !t.read.IsZero() {",
			Package:   "./inspector",
			Run:       "^TestNodeIsReadBeforeEachEffect$",
			Assertion: "is waiting () and not error",
		},
		{
			Name:      "throttle-taken-out",
			Promise:   "throttle",
			File:      "inspector/job_start.go",
			Old:       "\tif gap == 0 {",
			New:       "\tif gap >= 0 {",
			Package:   "./test/simtest",
			Run:       "^TestThrottle$",
			Assertion: "throttle:",
		},
		{
			Name:      "throttle-used-up-by-a-burst",
			Promise:   "4",
			File:      "fsm/node_throttle.go",
			Old:       "!at.Before(rec.Deadline) {",
			New:       "!at.Before(rec.Deadline) && t.token == 0 {",
			Package:   "./inspector",
			Run:       "^TestThrottle$",
			Assertion: "have no turn within a minute",
		},
	}
}

// workerMutants break what workers owe to the rest of the house.
func workerMutants() []Mutant {
	return []Mutant{
		{
			Name:      "tasks-not-interrupted",
			Promise:   "4",
			File:      "inspector/task_context.go",
			Old:       "{0, stopGrace, callGrace, flushGrace}",
			New:       "{0, 10 * stopGrace, callGrace, flushGrace}",
			Package:   "./inspector",
			Run:       "^TestPoolInterruptsTasks$",
			Assertion: "the pool stopped after",
		},
		{
			Name:      "grace-of-an-impatient-stop",
			Promise:   "4",
			File:      "inspector/task_context.go",
			Old:       "{0, stopGrace, callGrace, flushGrace}",
			New:       "{0, stopGrace / 4, callGrace, flushGrace}",
			Package:   "./test/simtest",
			Run:       "^TestOrderlyStopWithSlowIronic$",
			Assertion: "had to stop while it processed the data",
		},
		{
			Name:      "power-call-cut-at-the-stop",
			Promise:   "4",
			File:      "inspector/job_effect.go",
			Old:       "context.WithCancel(context.WithoutCancel(ctx))",
			New:       "context.WithCancel(ctx)",
			Package:   "./inspector",
			Run:       "^TestPowerCallIsNotCut$",
			Assertion: "the start ended in starting",
		},
		{
			Name:      "power-off-not-taken-over",
			Promise:   "4",
			File:      "inspector/job.go",
			Old:       "	if j.complete(rec) {",
			New:       "	if j.complete(rec) && j.out.answered {",
			Package:   "./inspector",
			Run:       "^TestPowerOffIsTakenOver$",
			Assertion: "and not finished",
		},
		{
			Name:      "reads-are-stale",
			Promise:   "1",
			File:      "inspector/log.go",
			Old:       "\tif r == Stale {",
			New:       "\tif r == Stale || r == Linearizable {",
			Package:   "./test/simtest",
			Run:       "^TestStartedIsKnown$",
			Assertion: "read-your-writes:",
		},
	}
}

// sweepMutants break what the leader does from time to time.
func sweepMutants() []Mutant {
	return []Mutant{
		{
			Name:      "nothing-times-out",
			Promise:   "4",
			File:      "inspector/periodic.go",
			Old:       "\t\tperiodic{\"introspection timeouts\", s.Live, s.timeouts, failing},\n",
			New:       "",
			Package:   "./test/simtest",
			Run:       "^TestIntrospectionsSurvive$/^kill$",
			Assertion: "no-stuck:",
		},
		{
			Name:      "lists-are-believed",
			Promise:   "erase-guard",
			File:      "inspector/sync.go",
			Old:       "if settled := s.settled(now); !settled {",
			New:       "if settled := s.settled(now); !settled && listed == nil {",
			Package:   "./test/simtest",
			Run:       "^TestSynchronisation$",
			Assertion: "a list that a tenth is suspected: not within",
		},
		{
			Name:      "deleted-unseen",
			Promise:   "erase-guard",
			File:      "inspector/job.go",
			Old:       "if !errors.Is(err, ErrNoNode) {",
			New:       "if errors.Is(err, ErrNotAllowed) {",
			Package:   "./inspector",
			Run:       "^TestSynchronisedNodeIsDeletedWhenItIsGone$",
			Assertion: "the record is there: false, want true",
		},
		{
			Name:    "site-erased",
			Promise: "erase-guard",
			File:    "inspector/sync.go",
			Old: `		if settled := s.settled(now); !settled {
			return s.suspect(ctx, a, now)
		}
	}
	now, later := missing[:min(len(missing), maxSweep)], missing[min(len(missing), maxSweep):]
	for _, node := range now {
		if err := propose(ctx, a, fsm.Enqueue{Node: node, Event: fsm.EventDelete}); err != nil {
`,
			New: `		if settled := s.settled(now); settled {
			return s.suspect(ctx, a, now)
		}
	}
	now, later := missing[:min(len(missing), maxSweep)], missing[min(len(missing), maxSweep):]
	for _, node := range now {
		if err := propose(ctx, a, fsm.DeleteNode{Node: node}); err != nil {
`,
			Package:   "./test/simtest",
			Run:       "^TestSynchronisation$",
			Assertion: "erase-guard:",
		},
		{
			Name:      "leadership-goes-round",
			Promise:   "7",
			File:      "app/health/ironic.go",
			Old:       "return ironic.Lasting()",
			New:       "return ironic.Err()",
			Package:   "./test/simtest",
			Run:       "^TestIronicAway$",
			Assertion: "leadership went round",
		},
	}
}
