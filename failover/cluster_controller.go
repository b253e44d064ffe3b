package failover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

const (
	// roundEvery is how often the signs of life are judged.
	roundEvery = 500 * time.Millisecond
	// recordLimit bounds one entry in the log.
	recordLimit = 5 * time.Second
	// proofLife is for how long a proof of leadership allows an outside write. Past
	// it the write is not begun; one that takes longer is proven again meanwhile.
	proofLife = 2 * time.Second
	// tellLimit bounds an Event, which is for people and may be lost.
	tellLimit = 5 * time.Second
	// maxTelling is how many Events are on their way at once; more are left out.
	maxTelling = 16
)

// clusterController is one cluster under one leadership.
type clusterController struct {
	o ControllerOptions
	// settings returns those that count now; a step takes them once.
	settings func() Settings
	cluster  Cluster
	a        leader.Authority
	tracker  *Tracker
	judge    *Judge
	edges    *edges    // in the compatible mode alone
	began    time.Time // of this leadership
	log      *slog.Logger
	failing  *slog.Logger   // of what fails at each round
	workers  sync.WaitGroup // all but Event writers end with the context at once

	mu      sync.Mutex
	running map[fencing.Token]bool // remediations that are carried out
	refused map[string]waiting     // by UID: why one was not begun though the judge would, or waits
	telling int                    // Events on their way
}

// waiting is why a remediation was not begun, or waits.
type waiting struct {
	why          []refusal
	since, asked time.Time // when that was found first in a row, and last
}

func newClusterController(o ControllerOptions, settings func() Settings, cluster Cluster, a leader.Authority,
	peers *peerHosts, all trackers) *clusterController {
	tracker := NewTracker()
	all[cluster.Name()] = tracker
	s := &clusterController{
		began: time.Now(), o: o, settings: settings, cluster: cluster, a: a, tracker: tracker,
		judge: NewJudge(JudgeOptions{
			Cluster: cluster.Name(), Peer: o.Self, Tracker: tracker, Log: o.Log, Fences: o.Fences, Settings: settings,
			Unread: o.Unread,
			peers:  peers, trackers: all,
		}),
		log:     o.Logger.With("kube_cluster", cluster.Name(), "token", a.Token()),
		running: make(map[fencing.Token]bool), refused: make(map[string]waiting),
	}
	s.failing = logs.Limit(s.log)
	if o.Settings.Mode == ModeNooBaa {
		s.edges = newEdges(func(n Node) bool { return settings().Remedy.looksAfter(n) })
	}
	return s
}

// run works until ctx ends and returns when everything that it began has ended.
func (s *clusterController) run(ctx context.Context) {
	defer s.workers.Wait()
	s.workers.Go(func() { s.watch(ctx) })
	s.workers.Go(func() { s.sweep(ctx) })
	if s.edges != nil {
		s.log.Warn(
			"failover deletes pods of kube nodes that are not Ready WITHOUT proof that they are off: two machines may run the same pod and write the same volume; set failover.mode to safe")
		s.workers.Go(func() { s.noobaa(ctx) })
	}
	tick := time.NewTicker(roundEvery)
	defer tick.Stop()
	for {
		s.round(ctx)
		if !s.waitForRound(ctx, tick.C) {
			return
		}
	}
}

// waitForRound waits for the next round: the tick, or the moment at which a kube node may be a
// suspect, and then for the API server's word that its Lease has become that old. It
// reports whether ctx goes on.
func (s *clusterController) waitForRound(ctx context.Context, tick <-chan time.Time) bool {
	due := time.NewTimer(s.judge.Due())
	defer due.Stop()
	for {
		select {
		case <-due.C:
			s.tracker.Ask()
		case <-s.tracker.Answered():
			return true
		case <-tick:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// watch follows the cluster until ctx ends.
func (s *clusterController) watch(ctx context.Context) {
	var w Watcher = s.cluster
	if s.edges != nil {
		w = tapped{s.cluster, s.edges}
	}
	for {
		err := s.tracker.Run(ctx, w)
		if ctx.Err() != nil {
			return
		}
		s.failing.Error("watch kube nodes failed, retrying; nothing fails over there", "err", err, "retry_in", watchAgain)
		if !pace.Wait(ctx, watchAgain) {
			return
		}
	}
}

// round records what was seen, judges, and begins what is due.
func (s *clusterController) round(ctx context.Context) {
	v, _ := s.o.Log.Changed()
	if w := s.tracker.Look(); w.Synced {
		limited, cancel := context.WithTimeout(ctx, recordLimit)
		err := Recorder{Cluster: s.cluster.Name(), Wall: s.o.Wall}.Record(limited, s.a, v, w)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.failing.Warn("record observed kube nodes failed, retrying", "err", err)
		}
	}
	follower{clusterController: s}.followShutdowns(ctx)
	all := s.judge.Look() // no other mode than the safe one acts on verdicts
	s.hold(ctx)
	for _, one := range all {
		if one.Act && ctx.Err() == nil {
			s.commitIntent(ctx, one)
		}
	}
	s.resume(ctx)
}

// hold records a storm.
func (s *clusterController) hold(ctx context.Context) {
	h, due := s.judge.Storm()
	if !due {
		return
	}
	if err := s.record(ctx, h); err != nil && ctx.Err() == nil {
		s.failing.Warn("record storm of failures failed, retrying", "err", err)
	}
}

// commitIntent commits the intent to act on a kube node. Of a second node at once the
// cluster's own budgets are asked first: what the first one lost counts in them.
func (s *clusterController) commitIntent(ctx context.Context, d Verdict) {
	if _, rests := budgetHolds(s, d.Node.UID); rests {
		return
	}
	now, err := s.confirm(ctx, d.Node)
	if err != nil {
		s.refuse(d.Node.UID, refusal{signsRail, err.Error()})
		return
	}
	if against := s.judge.refusals(d.Node.UID, &now, beforePower()); len(against) > 0 { // the watch may be behind
		s.refuse(d.Node.UID, against...)
		return
	}
	if err := s.bearable(ctx, d.Node.Name, d.Node.UID, nil); err != nil {
		s.refuse(d.Node.UID, refusal{budgetRail, err.Error()})
		return
	}
	err = s.record(ctx, kubestate.BeginRemediation{
		Cluster: s.cluster.Name(), Node: d.Node.Name, UID: d.Node.UID, BootID: d.Node.BootID,
		ControlPlane: d.Node.ControlPlane, SystemUUID: kubestate.SystemUUID(now.SystemUUID),
		Peer: s.o.Peer, Reason: kubestate.Reason(strings.Join(d.Why, "; ")), Millis: s.o.Wall().UnixMilli(),
	})
	if err != nil {
		s.refuse(d.Node.UID, refusal{"log", err.Error()})
		return
	}
	s.refuse(d.Node.UID)
	s.log.Warn("kube node declared dead; its machine will be powered off", "kube_node", d.Node.Name, "uid", d.Node.UID,
		"reason", d.Why)
}

// confirm reads the Node and its Lease from the storage, and fails with why the signs
// against it do not hold: a watch that stands still must not make a dead machine of
// one that is well.
func (s *clusterController) confirm(ctx context.Context, n kubestate.Node) (now Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, min(askLimit, s.settings().Remedy.Timeout))
	defer cancel()
	now, err = s.cluster.Node(ctx, n.Name)
	if err != nil {
		return now, fmt.Errorf("read the Node: %w", err)
	}
	s.tracker.Read(now)
	if err := s.heartbeat(ctx, n.Name); err != nil {
		return now, err
	}
	if suspect, why := s.judge.Still(n.UID); !suspect {
		return now, errors.New(why)
	}
	return now, nil
}

// What refuses besides guard rails, or is waited for.
const (
	budgetRail  = "budget"
	signsRail   = "signs"    // they do not hold
	busyRail    = "busy"     // the API server does not do now what it is asked
	unheardRail = "unheard"  // the peers do not hear a kube node that is well
	powerOnRail = "power-on" // a machine did not go on as it was told
)

// bearable returns why the power-off of a kube node, under its remediation or before one
// begins, would be one too many next to those that go before it.
func (s *clusterController) bearable(ctx context.Context, node, uid string, m *kubestate.Remediation) error {
	v, _ := s.o.Log.Changed()
	before, moving := false, false
	for _, r := range v.Remediations() {
		if r.Cluster == s.cluster.Name() && goesBefore(r, uid, m) {
			before, moving = true, moving || movesPods(r, v.Now())
		}
	}
	if !before {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(askLimit, s.settings().Remedy.Timeout))
	defer cancel()
	pods, err := s.cluster.Pods(ctx, node)
	if err != nil {
		return fmt.Errorf("another kube node is being remedied, and this one's pods cannot be listed: %w", err)
	}
	budgets, err := s.cluster.Disrupted(ctx, s.eligible(pods), !moving)
	if err != nil {
		return fmt.Errorf("another kube node is being remedied, and the PodDisruptionBudgets cannot be read: %w", err)
	}
	if len(budgets) > 0 {
		return fmt.Errorf(
			"another kube node is being remedied, and no further disruption is allowed by PodDisruptionBudget %s",
			strings.Join(budgets, ", "))
	}
	return nil
}

// budgetHolds reports whether a budget refused a kube node when it was asked last, and whether it is too soon to
// ask again: that lists its pods and all budgets of the cluster, maybe for days. It is asked again each time after a
// tenth of the time that this lasts, within budgetAgain.
func budgetHolds(s *clusterController, uid string) (holds, rests bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.refused[uid]
	holds = len(w.why) > 0 && w.why[0].rail == budgetRail
	return holds, holds && time.Since(w.asked) < min(w.asked.Sub(w.since)/10, budgetAgain)
}

// budgetAgain is less than stuckRetry without settledAfter: of each minute in which the one before is tried again its
// pods count as missing for the rest alone.
const budgetAgain = 10 * time.Second

// settledAfter is how long a remediation has to wait at one step until each of its pods counts
// as missing in its budgets: Kubernetes has called the pods of a silent machine not Ready, or
// made those again that were deleted.
const settledAfter = 45 * time.Second

// movesPods reports whether a budget may not show yet what the remediation of a kube node takes
// from it. Until then each budget that allows nothing holds the next kube node; after it those
// do that lack a pod elsewhere: a machine that waits for its repair does not hold others
// because of budgets that their own pods exhaust, or that never allow anything.
func movesPods(r kubestate.Remediation, now fsm.Time) bool {
	switch r.State {
	case kubestate.RemOff, kubestate.RemTainted, kubestate.RemDeleted:
		return true
	}
	return now.Sub(r.Since) < settledAfter
}

// refuse keeps why a remediation was not begun, or waits, nothing if it goes on. It logs
// what is new: the same guard rails may say another time each second.
func (s *clusterController) refuse(uid string, why ...refusal) {
	s.mu.Lock()
	w := waiting{why, time.Now(), time.Now()}
	known := slices.EqualFunc(s.refused[uid].why, why, func(a, b refusal) bool { return a.rail == b.rail })
	if known {
		w.since = s.refused[uid].since
	}
	s.refused[uid] = w
	if len(why) == 0 {
		delete(s.refused, uid)
	}
	s.mu.Unlock()
	if !known && len(why) > 0 {
		s.log.Warn("failover of kube node waits", "uid", uid, "reason", sentences(why))
	}
}

// withhold is the outcome of a turn that waits for what forbids its command to go away.
func (s *clusterController) withhold(m kubestate.Remediation, why ...refusal) error {
	s.refuse(m.UID, why...)
	return wait(lookAgain)
}

func sentences(why []refusal) (out []string) {
	for _, r := range why {
		out = append(out, r.why)
	}
	return out
}

// verdicts returns the newest, with what was refused since they were given.
func (s *clusterController) verdicts() []Verdict {
	all := slices.Clone(s.judge.Verdicts())
	if s.edges != nil {
		for i, v := range all {
			all[i] = s.edges.view(v, s.judge.held(), s.settings().DryRun)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.refused, func(uid string, _ waiting) bool {
		return !slices.ContainsFunc(all, func(d Verdict) bool {
			return d.Node.UID == uid && (d.Suspect || d.Remediation != nil)
		})
	})
	for i, d := range all {
		refused := s.refused[d.Node.UID].why
		if len(refused) == 0 {
			continue
		}
		all[i].Act = false
		if refused[0].rail != signsRail || d.Remediation == nil { // else the judge says the same, as of now
			all[i].Why = append(sentences(refused), d.Why...)
		}
		if d.Rail == "" && refused[0].rail != signsRail {
			all[i].Rail = refused[0].rail
		}
		if d.Remediation != nil {
			all[i].Would = fmt.Sprintf("nothing now: its remediation waits at %v", d.Remediation.State)
		}
	}
	return all
}

// resume carries out what is open and is not carried out yet: what was begun just
// now, and what an earlier leader left.
func (s *clusterController) resume(ctx context.Context) {
	v, _ := s.o.Log.Changed()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range v.Remediations() {
		if m.Cluster != s.cluster.Name() || s.running[m.Intent] {
			continue
		}
		s.running[m.Intent] = true
		s.workers.Go(func() {
			r := &remedy{clusterController: s, intent: m.Intent, target: target{clusterController: s},
				signs: lifeSigns{clusterController: s}}
			r.workUntilEnded(ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.running, m.Intent)
		})
	}
}

// record commits a command and waits until the view has it.
func (s *clusterController) record(ctx context.Context, c fsm.Command) error {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	res, err := s.a.Propose(ctx, c)
	if err != nil {
		return err
	}
	if err := res.Err(); err != nil {
		return err
	}
	for {
		v, changed := s.o.Log.Changed()
		if uint64(res.Token) <= v.Base()+v.Index() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("see the own entry applied: %w", ctx.Err())
		}
	}
}

// errUnproven says that leadership could not be proven; nothing was written.
type errUnproven struct{ err error }

func (e errUnproven) Error() string { return "leadership is not proven: " + e.err.Error() }
func (e errUnproven) Unwrap() error { return e.err }

// write is the one way to change anything outside: right before, leadership is
// proven; while f runs it is proven again and again; and a process that stood still
// in between does not begin (docs/design.md#fencing). f is bounded by limit.
func (s *clusterController) write(ctx context.Context, limit time.Duration, what string,
	f func(context.Context) error) error {
	t0 := time.Now()
	within, cancel, err := leader.Confirmed(ctx, s.a, proofLife)
	if err != nil {
		return errUnproven{err}
	}
	defer cancel()
	within, stop := context.WithTimeout(within, limit)
	defer stop()
	if age := time.Since(t0); age > proofLife {
		return errUnproven{fmt.Errorf("the proof is %v old", rounded(age))}
	}
	if err := within.Err(); err != nil {
		return errUnproven{context.Cause(within)}
	}
	if err := f(within); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// writeEvent writes an Event on a kube node, in parallel with the work. A lost Event is
// not repeated.
func (s *clusterController) writeEvent(ctx context.Context, n Node, typ, reason, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.telling >= maxTelling || n.UID == "" {
		return
	}
	s.telling++
	s.workers.Go(func() {
		err := s.write(ctx, tellLimit, "write an Event",
			func(ctx context.Context) error { return s.cluster.Tell(ctx, n, typ, reason, message) })
		if err != nil && ctx.Err() == nil {
			s.log.Info("write Event failed", "kube_node", n.Name, "event", reason, "err", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.telling--
	})
}
