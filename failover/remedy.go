package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

const (
	// stuckRetry is the pause before what cannot go on is tried again.
	stuckRetry = time.Minute
	// againSoon is the pause after something that is no failure: another client
	// wrote first, or the log did not answer.
	againSoon = 100 * time.Millisecond
	// maxConflicts is how often in a row another client may write first.
	maxConflicts = 50
	// lookAgain is how often a remediation that waits looks at the state and at the
	// signs of life. It costs no request.
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
	intent fencing.Token
	state  fsm.RemediationState // of the newest turn; 0 before the first
	since  time.Time            // when this leadership met it
	tries  int                  // failures in a row since then

	power    escalation
	boot     string    // boot ID as of the newest proof that the machine was off
	sure     time.Time // of that proof: what the kubelet does later contradicts it
	machine  Machine   // as it was read last
	known    bool      // the Node was read under this leadership
	kubelet  string    // of the Node as it was read last
	hears    time.Time // since when peers hear it though it was read off; zero if none does
	deleted  int       // pods, under this leadership
	fewest   int       // pods that were left in this state at least; 0 before the first look
	progress time.Time // when they became fewer
	idle     time.Duration
	healthy  time.Time // since when it has been back; zero if it is not
	switched bool      // power-on was tried
}

func newRemedy(s *clusterController, intent fencing.Token) *remedy {
	return &remedy{clusterController: s, intent: intent}
}

// wait is the outcome of a turn that has nothing to do for a while. It is no
// failure.
type wait time.Duration

func (w wait) Error() string { return "wait for " + time.Duration(w).String() }

// run works until the remediation has ended or ctx does.
func (r *remedy) run(ctx context.Context) {
	for ctx.Err() == nil {
		v, _ := r.o.Log.Changed()
		m, ok := v.Remediation(r.intent)
		if !ok {
			return
		}
		if m.State.Ended() {
			r.tidy(ctx, m)
			return
		}
		r.enter(m)
		err := r.turn(ctx, v, m)
		if ctx.Err() != nil || !r.rest(ctx, m, r.settle(ctx, m, err)) {
			return
		}
	}
}

// enter notes that the state is another one.
func (r *remedy) enter(m fsm.Remediation) {
	if r.state == m.State {
		return
	}
	first := r.state == 0
	r.state, r.since, r.tries, r.healthy, r.fewest = m.State, time.Now(), 0, time.Time{}, 0
	r.power.failed, r.hears = nil, time.Time{}
	switch {
	case m.State != fsm.RemFencing:
		r.power.announced, r.power.off = false, false
	case first:
		r.power.last = m.Device // go on with the device at which an earlier leader was
	default:
		r.power.last = ""
	}
	if first {
		r.boot = m.BootID
		r.machine = Machine{Cluster: m.Cluster, Node: m.Node, SystemUUID: m.SystemUUID}
	}
	if m.WasOff && r.sure.IsZero() {
		r.sure = r.began // an earlier leader saw it off; any change that this one saw contradicts that
	}
}

// turn does what the state asks for.
func (r *remedy) turn(ctx context.Context, v fsm.View, m fsm.Remediation) error {
	if contradicted(m) {
		if err := r.readmit(ctx, m); err != nil {
			return err
		}
	}
	if _, paused := v.FailoverPause(m.Cluster); takesPower(m.State) && (paused || !r.looked(m)) {
		return wait(lookAgain)
	}
	switch m.State {
	case fsm.RemIntent:
		return r.cordon(ctx, m)
	case fsm.RemCordoned:
		return r.announceFirst(ctx, m)
	case fsm.RemFencing:
		return r.fence(ctx, m)
	case fsm.RemOff:
		return r.taint(ctx, m)
	case fsm.RemTainted:
		return r.empty(ctx, m)
	case fsm.RemDeleted:
		return r.detach(ctx, m)
	case fsm.RemDetached:
		return r.recover(ctx, m)
	case fsm.RemStuck:
		return r.unstick(ctx, m)
	default:
		return fmt.Errorf("remediation %v is %v, which this version does not know", m.Intent, m.State)
	}
}

// takesPower reports whether a state leads to a power-off. A pause holds those and
// no others: what is off already is safe to finish, and its work is down until
// then.
func takesPower(s fsm.RemediationState) bool {
	switch s {
	case fsm.RemIntent, fsm.RemCordoned, fsm.RemFencing, fsm.RemStuck:
		return true
	}
	return false
}

// settle decides what follows a turn: how long to wait, and whether it is stuck.
func (r *remedy) settle(ctx context.Context, m fsm.Remediation, err error) time.Duration {
	var idle wait
	var unproven errUnproven
	again := r.settings().Remedy.RetryInterval
	switch {
	case err == nil:
		return 0
	case errors.As(err, &idle):
		return time.Duration(idle)
	case ctx.Err() != nil:
		return 0
	case errors.As(err, &unproven):
		return againSoon
	case errors.Is(err, ErrForbidden):
		return r.settle(ctx, m, r.stuck(ctx, m, err.Error()))
	case !r.tracker.Look().API.Answers:
		return again // the decision stands; it is carried out when the API server answers
	}
	r.tries++
	most := r.settings().Remedy.Retries
	if errors.Is(err, ErrConflict) {
		most, again = maxConflicts, againSoon
	}
	r.log.Warn("remediation step failed", "kube_node", m.Node, "intent", m.Intent, "state", m.State, "tries", r.tries, "err", err)
	if r.tries <= most {
		return again
	}
	return r.settle(ctx, m, r.stuck(ctx, m, fmt.Sprintf("after %d tries: %v", r.tries, err)))
}

// rest waits, but not longer than the state stays as it is: an operator may
// release what is stuck. It reports whether ctx goes on.
func (r *remedy) rest(ctx context.Context, m fsm.Remediation, d time.Duration) bool {
	for end := time.Now().Add(d); time.Until(end) > 0; {
		if !pause(ctx, min(lookAgain, time.Until(end))) {
			return false
		}
		v, _ := r.o.Log.Changed()
		if now, ok := v.Remediation(m.Intent); !ok || now.State != m.State {
			return true
		}
	}
	return ctx.Err() == nil
}

// move commits the next state. device announces a power-off command to it.
func (r *remedy) move(ctx context.Context, m fsm.Remediation, to fsm.RemediationState, device, reason string) error {
	err := r.record(ctx, fsm.StepRemediation{
		Intent: m.Intent, From: m.State, To: to, Peer: r.o.Peer, Device: device,
		Reason: fsm.FailoverReason(reason), Millis: r.o.Wall().UnixMilli(),
	})
	switch {
	case err == nil:
		r.log.Info("remediation advanced", "kube_node", m.Node, "intent", m.Intent, "from", m.State, "to", to, "device", device, "reason", reason)
		r.announceState(ctx, m, to, reason)
		return nil
	case errors.Is(err, fsm.IllegalTransition), errors.Is(err, fsm.Invalid):
		r.log.Error("record remediation step refused", "kube_node", m.Node, "intent", m.Intent, "from", m.State, "to", to, "err", err)
		return wait(stuckRetry)
	}
	// The state is read again: it may have moved, by us or by another leader.
	r.log.Info("record remediation step: outcome unknown", "kube_node", m.Node, "intent", m.Intent, "from", m.State, "to", to, "err", err)
	return wait(againSoon)
}

// announceState writes the Events that people look for.
func (r *remedy) announceState(ctx context.Context, m fsm.Remediation, to fsm.RemediationState, reason string) {
	n := Node{Name: m.Node, UID: m.UID}
	switch to {
	case fsm.RemCordoned:
		r.tell(ctx, n, "Warning", "FailoverBegun", "held for dead: "+m.Steps[0].Reason)
	case fsm.RemOff:
		r.tell(ctx, n, "Warning", "FailoverOff", reason)
	case fsm.RemDeleted:
		r.tell(ctx, n, "Normal", "FailoverDeleted", reason)
	case fsm.RemRecovered, fsm.RemCancelled:
		r.tell(ctx, n, "Normal", "FailoverEnded", to.String()+": "+reason)
	case fsm.RemStuck:
		r.tell(ctx, n, "Warning", "FailoverStuck", reason)
	}
}

// stuck says that the remediation cannot go on, and why. It is tried again after
// stuckRetry; a reason that is new is noted.
func (r *remedy) stuck(ctx context.Context, m fsm.Remediation, reason string) error {
	if m.State == fsm.RemStuck && (forOperator(m) || lastReason(m) == fsm.FailoverReason(reason)) {
		return wait(stuckRetry)
	}
	r.log.Error("remediation is stuck and needs an operator", "kube_node", m.Node, "intent", m.Intent, "state", m.State, "reason", reason)
	if err := r.move(ctx, m, fsm.RemStuck, "", reason); err != nil {
		return err
	}
	if m.State == fsm.RemStuck {
		return wait(stuckRetry)
	}
	return nil
}

// forOperator reports whether a remediation is stuck and not tried again before an
// operator releases it. No other reason is noted over that one.
func forOperator(m fsm.Remediation) bool {
	return contradicted(m) || m.State == fsm.RemStuck && lastReason(m) == fsm.HeldByFounding
}

// contradicted reports whether a remediation is stuck because its machine gave signs
// of life though its device said off.
func contradicted(m fsm.Remediation) bool {
	return m.State == fsm.RemStuck && strings.HasPrefix(lastReason(m), contradiction)
}

func lastReason(m fsm.Remediation) string { return m.Steps[len(m.Steps)-1].Reason }

// Errors of node.
var (
	errDeleted  = errors.New("the Node was deleted")
	errReplaced = errors.New("the Node was deleted, and another one has its name")
)

// node reads the Node of the remediation again. It fails with errDeleted or
// errReplaced when that one does not exist any more.
func (r *remedy) node(ctx context.Context, m fsm.Remediation) (Node, error) {
	ctx, cancel := context.WithTimeout(ctx, r.settings().Remedy.Timeout)
	defer cancel()
	n, err := r.cluster.Node(ctx, m.Node)
	switch {
	case errors.Is(err, ErrGone):
		return Node{}, errDeleted
	case err != nil:
		return Node{}, fmt.Errorf("read the Node: %w", err)
	case n.UID != m.UID:
		return Node{}, errReplaced
	}
	r.tracker.Read(n)
	r.machine, r.kubelet, r.known = MachineOf(m.Cluster, n), n.Kubelet, true
	if m.SystemUUID != "" {
		r.machine.SystemUUID = m.SystemUUID // of the machine that died
	}
	return n, nil
}

// lost ends the remediation of a Node that does not exist any more; any other
// error it returns. A Node that has taken the name over is not touched.
func (r *remedy) lost(ctx context.Context, m fsm.Remediation, err error) error {
	if !errors.Is(err, errDeleted) && !errors.Is(err, errReplaced) {
		return err
	}
	return r.move(ctx, m, ending(m), "", err.Error())
}

// ending is how a remediation ends that needs nothing more.
func ending(m fsm.Remediation) fsm.RemediationState {
	if m.WasOff {
		return fsm.RemRecovered
	}
	return fsm.RemCancelled
}
