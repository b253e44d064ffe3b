package main

import "slices"

// The packages whose tests judge the gate.
const (
	gateSim  = "./test/simtest"
	gateUnit = "./firewall"
)

// gateMutants open the door, or keep the address, where they must not.
func gateMutants() []Mutant {
	return slices.Concat(waitMutants(), proofOfDoorMutants(), wordMutants(), wireMutants(), rivalMutants())
}

// waitMutants open before another's door is surely shut.
func waitMutants() []Mutant {
	return []Mutant{
		{
			Name:      "door-without-wait",
			Promise:   "2",
			File:      "firewall/guard.go",
			Old:       "	return time.Until(w.began.Add(max(wait, d.Wait)))\n",
			New:       "	return 0 * time.Until(w.began.Add(max(wait, d.Wait)))\n",
			Package:   gateUnit,
			Run:       "^TestGuardWaitsForAnotherDoor$",
			Assertion: "records-late:",
		},
		{
			Name:      "door-without-wait-in-the-log",
			Promise:   "2",
			File:      "fsm/pxe_door.go",
			Old:       "	left := t.lead.At.Add(wait).Sub(t.now())\n",
			New:       "	left := 0 * t.lead.At.Add(wait).Sub(t.now())\n",
			Package:   "./fsm",
			Run:       "^TestAnotherLeadershipWaits$",
			Assertion: "ok (), want refused",
		},
		{
			Name:    "door-opened-before-it-is-recorded",
			Promise: "2",
			File:    "firewall/guard.go",
			Old: `	if left := w.mustWait(v.PassDoor(), wait); left > 0 {
		w.wakeIn(left)
		return`,
			New: `	if w.recorded = v.PassDoor().OpenBy.IsZero(); w.recorded {
		return "", nil
	}
	if left := w.mustWait(v.PassDoor(), wait); left > 0 {
		w.wakeIn(left)
		return`,
			Package:   gateSim,
			Run:       "^TestLateWrite$",
			Assertion: "one-door:",
		},
		{
			Name:      "address-waits-for-the-lease-alone",
			Promise:   "2",
			File:      "firewall/wait.go",
			Old:       "	return max(2*o.Length, freshAddress+addressLife) + margin + o.AddressSlack\n",
			New:       "	return 2*o.Length + margin + o.AddressSlack\n",
			Package:   gateSim,
			Run:       "^TestWokenLeader$",
			Assertion: "one-address:",
		},
	}
}

// proofOfDoorMutants weaken what ties a write to its proof.
func proofOfDoorMutants() []Mutant {
	return []Mutant{
		{
			Name:    "armed-after-the-proof",
			Promise: "2",
			File:    "firewall/guard.go",
			Old: `	if door && !w.open {
		if err := w.arm(ctx, l); err != nil {
			return err
		}
	}
	t0 := time.Now()
	limited, cancel := context.WithTimeout(ctx, l)
	defer cancel()
	if err := w.a.Confirm(limited, t0); err != nil {
		return fmt.Errorf("leadership could not be proven: %w", err)
	}
`,
			New: `	t0 := time.Now()
	if err := w.a.Confirm(ctx, t0); err != nil {
		return fmt.Errorf("leadership could not be proven: %w", err)
	}
	if door && !w.open {
		if err := w.arm(ctx, l); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, l)
	defer cancel()
`,
			Package:   gateSim,
			Run:       "^TestStoppedBetweenProofAndWrite$/^arm$",
			Assertion: "one-door:",
		},
		{
			Name:      "swap-made-unconditional",
			Promise:   "2",
			File:      "firewall/guard.go",
			Old:       "	if errors.Is(err, ErrLapsed) {\n		w.open = false\n",
			New:       "	if errors.Is(err, ErrLapsed) && w.g.o.Lease.Arm(context.Background(), l) == nil && w.g.o.Lease.Open(context.Background(), l) != nil {\n		w.open = false\n",
			Package:   gateSim,
			Run:       "^TestStoppedBetweenProofAndWrite$/^swap$",
			Assertion: "one-door:",
		},
		{
			Name:    "door-confirmed-by-verifyleader",
			Promise: "2",
			File:    "raftstore/lead.go",
			Old: `	mark := l.store.net.acks.Mark()
`,
			New: `	mark := l.store.net.acks.Mark()
	if ctx != nil {
		return l.store.slots.await(ctx, func() raft.Future { return l.store.raft.VerifyLeader() })
	}
`,
			Package:   gateSim,
			Run:       "^TestWokenLeader$",
			Assertion: "one-door:",
		},
	}
}

// wordMutants say or do what a leader must not around its end and beginning.
func wordMutants() []Mutant {
	return []Mutant{
		{
			Name:      "word-of-a-leader-that-never-opened",
			Promise:   "2",
			File:      "firewall/guard.go",
			Old:       "	if closed && w.recorded {\n",
			New:       "	if closed {\n",
			Package:   gateUnit,
			Run:       "^TestGuardThatNeverOpenedSaysNothing$",
			Assertion: "never-opened:",
		},
		{
			Name:    "reopened-after-the-word",
			Promise: "2",
			File:    "firewall/guard.go",
			Old: `	w.g.stoppedOnce.Do(func() { close(w.g.stopped) })
	<-ctx.Done()
	return nil
`,
			New: `	w.g.stoppedOnce.Do(func() { close(w.g.stopped) })
	for ctx.Err() == nil {
		_ = w.round(ctx)
		time.Sleep(again)
	}
	return nil
`,
			Package:   gateUnit,
			Run:       "^TestGuardNeverReopens$",
			Assertion: "never-reopens:",
		},
		{
			Name:      "address-without-a-fresh-proof",
			Promise:   "2",
			File:      "firewall/address.go",
			Old:       "	if time.Since(t0) > freshAddress {\n",
			New:       "	if time.Since(t0) > time.Hour {\n",
			Package:   gateUnit,
			Run:       "^TestAddressNeedsAFreshProof$",
			Assertion: "fresh-proof:",
		},
		{
			Name:      "door-without-lists",
			Promise:   "2",
			File:      "firewall/guard.go",
			Old:       "	if _, pulled := v.Pull(); !pulled {\n",
			New:       "	if _, pulled := v.Pull(); !pulled && w.a == nil {\n",
			Package:   gateSim,
			Run:       "^TestDoorNeedsLists$",
			Assertion: "needs-lists:",
		},
	}
}
