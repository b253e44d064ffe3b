package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/pace"
)

const (
	// stuckRetry is the pause before what cannot go on is tried again.
	stuckRetry = time.Minute
	// againSoon is the pause after something that is no failure: another client
	// wrote first, or the log did not answer.
	againSoon = 100 * time.Millisecond
	// maxConflicts is how often in a row another client may write first.
	maxConflicts = 50
	// busyLimit is for how long an API server may answer that it cannot do something now
	// before an operator is called.
	busyLimit = 10 * time.Minute
	// lookAgain is how often a remediation that waits looks at the state and at the
	// signs of life, unless the log shows news of them. It costs no request.
	lookAgain = time.Second
)

// remedy carries out one remediation under one leadership. What it knows beyond
// the log only makes it more careful: without it, it proves again. It belongs to
// one goroutine.
//
// Each turn does what the state in the log asks for, and ends with the next state
// in the log. Every turn may be the second one at the same state: of an earlier
// leader that got no further, or lost the answer.
type remedy struct {
	*clusterController
	intent  fencing.Token
	state   kubestate.State // of the newest turn; 0 before the first
	since   time.Time       // when this leadership met it
	tries   int             // failures in a row since then
	busy    time.Time       // since when the API server does nothing of what it is asked; zero if it does
	target  target
	signs   lifeSigns
	power   escalation
	pods    evacuation
	healthy time.Time // since when it has been back; zero if it is not
}

// wait is the outcome of a turn that has nothing to do for a while. It is no
// failure.
type wait time.Duration

func (w wait) Error() string { return "wait for " + time.Duration(w).String() }

// workUntilEnded works until the remediation has ended or ctx does.
func (r *remedy) workUntilEnded(ctx context.Context) {
	for ctx.Err() == nil {
		v, _ := r.o.Log.Changed()
		m, ok := v.Remediation(r.intent)
		if !ok {
			return
		}
		if m.State.Ended() {
			r.refuse(m.UID)
			r.target.tidy(ctx, m)
			r.target.tellHalfOff(ctx, m)
			return
		}
		r.enter(m)
		err := r.takeStep(ctx, m)
		if ctx.Err() != nil || !r.waitForChange(ctx, m, r.decideNext(ctx, m, err)) {
			return
		}
	}
}

// enter notes that the state is another one.
func (r *remedy) enter(m kubestate.Remediation) {
	if r.state == m.State {
		return
	}
	first := r.state == 0
	r.state, r.since, r.tries, r.busy, r.healthy = m.State, time.Now(), 0, time.Time{}, time.Time{}
	r.pods.fewest, r.signs.hears = 0, time.Time{}
	r.power.enter(m, first)
	if first {
		r.target.boot = m.BootID
		r.target.ons.earlier = slices.ContainsFunc(m.Steps, func(s kubestate.Step) bool {
			return s.State == kubestate.RemDetached
		})
		r.target.machine = Machine{Cluster: m.Cluster, Node: m.Node, SystemUUID: m.SystemUUID}
	}
	if m.WasOff && r.signs.sure.IsZero() {
		r.signs.sure = r.began // an earlier leader saw it off; any change that this one saw contradicts that
	}
}

// takeStep does what the state asks for.
func (r *remedy) takeStep(ctx context.Context, m kubestate.Remediation) error {
	if contradicted(m) {
		if err := r.readmit(ctx, m); err != nil {
			return err
		}
	}
	if idle := r.settings().Idle(); idle != "" {
		return rejudged{r}.endRemediation(ctx, m, idle)
	}
	switch {
	case m.State == kubestate.RemDetached: // powerOn says what holds its command
	case !takesPower(m.State) || r.power.off:
		if r.busy.IsZero() {
			r.refuse(m.UID)
		}
	case !r.signs.looked(m):
		return r.withhold(m, refusal{"looks-first",
			fmt.Sprintf("this leader has not seen its Lease change, or not change for %v "+
				"(failover.lease_age)", r.settings().Detection.LeaseAge)})
	}
	switch m.State {
	case kubestate.RemIntent:
		return r.cordon(ctx, m)
	case kubestate.RemCordoned:
		return r.announceFirst(ctx, m, "")
	case kubestate.RemFencing:
		return r.fence(ctx, m)
	case kubestate.RemOff:
		return r.taint(ctx, m)
	case kubestate.RemTainted:
		return r.empty(ctx, m)
	case kubestate.RemDeleted:
		return r.detach(ctx, m)
	case kubestate.RemDetached:
		return r.recover(ctx, m)
	case kubestate.RemStuck:
		return r.unstick(ctx, m)
	default:
		return fmt.Errorf("remediation %v is %v, which this version does not know", m.Intent, m.State)
	}
}

// takesPower reports whether a state leads to a power-off. What forbids one holds those
// and no others: what is off already is safe to finish, and its work is down until
// then.
func takesPower(s kubestate.State) bool {
	switch s {
	case kubestate.RemIntent, kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemStuck:
		return true
	}
	return false
}

// decideNext decides what follows a turn: how long to wait, and whether it is stuck.
func (r *remedy) decideNext(ctx context.Context, m kubestate.Remediation, err error) time.Duration {
	var idle wait
	var unproven errUnproven
	again := r.settings().Remedy.RetryInterval
	if !errors.Is(err, ErrBusy) {
		r.busy = time.Time{}
	}
	switch {
	case err == nil:
		r.tries = 0
		return 0
	case errors.As(err, &idle):
		return time.Duration(idle)
	case ctx.Err() != nil:
		return 0
	case errors.As(err, &unproven):
		return againSoon
	case errors.Is(err, ErrForbidden):
		return r.decideNext(ctx, m, r.stuck(ctx, m, err.Error()))
	case !r.tracker.Look().API.Answers:
		return again // the decision stands; it is carried out when the API server answers
	case errors.Is(err, ErrBusy):
		if r.busy.IsZero() {
			r.busy = time.Now()
		}
		// To call an operator costs more than to wait, and what is off stays off: it is asked
		// again each time after a tenth of the time that this lasts.
		lasts := time.Since(r.busy)
		r.failing.Warn("remediation step failed, retrying", "kube_node", m.Node, "intent", m.Intent, "state", m.State, "err",
			err)
		if lasts > busyLimit {
			return r.decideNext(ctx, m, r.stuck(ctx, m, fmt.Sprintf("for %v: %v", rounded(lasts), err)))
		}
		r.refuse(m.UID, refusal{busyRail, err.Error()})
		return max(again, min(lasts/10, proveEvery))
	}
	r.tries++
	most := r.settings().Remedy.Retries
	if errors.Is(err, ErrConflict) {
		most, again = maxConflicts, againSoon
	}
	r.log.Warn("remediation step failed", "kube_node", m.Node, "intent", m.Intent, "state", m.State, "tries", r.tries,
		"err", err)
	if r.tries <= most {
		return again
	}
	return r.decideNext(ctx, m, r.stuck(ctx, m, fmt.Sprintf("after %d tries: %v", r.tries, err)))
}

// waitForChange waits, but not longer than the state and the votes stay as they are: an operator
// may release what is stuck, and a peer take back what it heard. It reports whether ctx
// goes on.
func (r *remedy) waitForChange(ctx context.Context, m kubestate.Remediation, d time.Duration) bool {
	v, _ := r.o.Log.Changed()
	_, heard, _ := v.KubeVotes(m.Cluster, m.UID)
	for end := time.Now().Add(d); time.Until(end) > 0; {
		if !pace.Wait(ctx, min(againSoon, time.Until(end))) {
			return false
		}
		v, _ := r.o.Log.Changed()
		_, hear, _ := v.KubeVotes(m.Cluster, m.UID)
		if now, ok := v.Remediation(m.Intent); !ok || now.State != m.State || hear != heard {
			return true
		}
	}
	return ctx.Err() == nil
}

// move commits the next state. device announces a power-off command to it.
func (r *remedy) move(ctx context.Context, m kubestate.Remediation, to kubestate.State, device, reason string) error {
	err := r.record(ctx, kubestate.StepRemediation{
		Intent: m.Intent, From: m.State, To: to, Peer: r.o.Peer, Device: device,
		Reason: kubestate.Reason(reason), Millis: r.o.Wall().UnixMilli(),
	})
	switch {
	case errors.Is(err, fsm.IllegalTransition), errors.Is(err, fsm.Invalid):
		r.log.Error("record remediation step refused", "kube_node", m.Node, "intent", m.Intent, "from", m.State, "to", to,
			"err", err)
		return wait(stuckRetry)
	case err != nil:
		// The state is read again: it may have moved, by us or by another leader.
		r.log.Info("record remediation step: outcome unknown", "kube_node", m.Node, "intent", m.Intent, "from", m.State,
			"to", to, "err", err)
		return wait(againSoon)
	}
	r.log.Info("remediation advanced", "kube_node", m.Node, "intent", m.Intent, "from", m.State, "to", to, "device",
		device, "reason", reason)
	n := Node{Name: m.Node, UID: m.UID}
	switch to { // people look for these Events
	case kubestate.RemCordoned:
		r.writeEvent(ctx, n, "Warning", "FailoverBegun", "held for dead: "+m.Steps[0].Reason)
	case kubestate.RemOff:
		r.writeEvent(ctx, n, "Warning", "FailoverOff", reason)
	case kubestate.RemDeleted:
		r.writeEvent(ctx, n, "Normal", "FailoverDeleted", reason)
	case kubestate.RemRecovered, kubestate.RemCancelled:
		r.writeEvent(ctx, n, "Normal", "FailoverEnded", to.String()+": "+reason)
	case kubestate.RemStuck:
		r.writeEvent(ctx, n, "Warning", "FailoverStuck", reason)
	}
	return nil
}

// stuck says that the remediation cannot go on, and why. It is tried again after
// stuckRetry; a reason that is new is noted.
func (r *remedy) stuck(ctx context.Context, m kubestate.Remediation, reason string) error {
	if m.State == kubestate.RemStuck && (forOperator(m) || lastReason(m) == kubestate.Reason(reason)) {
		return wait(stuckRetry)
	}
	r.log.Error("remediation is stuck and needs an operator", "kube_node", m.Node, "intent", m.Intent, "state", m.State,
		"reason", reason)
	if err := r.move(ctx, m, kubestate.RemStuck, "", reason); err != nil {
		return err
	}
	if m.State == kubestate.RemStuck {
		return wait(stuckRetry)
	}
	return nil
}

// forOperator reports whether a remediation is stuck and not tried again before an
// operator releases it. No other reason is noted over that one.
func forOperator(m kubestate.Remediation) bool {
	return contradicted(m) || m.State == kubestate.RemStuck && lastReason(m) == kubestate.HeldByFounding
}

// contradicted reports whether a remediation is stuck because its machine gave signs
// of life though its device said off.
func contradicted(m kubestate.Remediation) bool {
	return m.State == kubestate.RemStuck && strings.HasPrefix(lastReason(m), contradiction)
}

func lastReason(m kubestate.Remediation) string { return m.Steps[len(m.Steps)-1].Reason }

// lost ends the remediation of a Node that does not exist any more; any other
// error it returns. A Node that has taken the name over is not touched.
func (r *remedy) lost(ctx context.Context, m kubestate.Remediation, err error) error {
	if !errors.Is(err, errDeleted) && !errors.Is(err, errReplaced) {
		return err
	}
	return r.move(ctx, m, ending(m), "", err.Error())
}

// ending is how a remediation ends that needs nothing more.
func ending(m kubestate.Remediation) kubestate.State {
	if m.WasOff {
		return kubestate.RemRecovered
	}
	return kubestate.RemCancelled
}
