package failover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/pace"
)

const (
	// maxBatch is how many pods are deleted on one proof, and batchLife for how long
	// one may be used: a machine needs longer than that to boot into a kubelet.
	maxBatch  = 50
	batchLife = 5 * time.Second
	// readingLife is for how long a reading of off may be the beginning of another proof:
	// from off to the first deletion nothing takes that long but requests that are slow.
	readingLife = time.Second
	// detachFirst and detachLast are the first and the longest pause between two
	// looks at the volumes; each is one and a half times the one before.
	detachFirst = 200 * time.Millisecond
	detachLast  = 2 * time.Second
	// DetachLimit is how long volumes may stay attached before an operator is
	// called.
	DetachLimit = 10 * time.Minute
	// podLimit is how long pods may be left without becoming fewer before the
	// remediation is stuck.
	podLimit = 2 * time.Minute
	// proveEvery is how often power, marks and pods are looked at while volumes, or
	// pods that do not go, are waited for.
	proveEvery = 10 * time.Second
)

// proof is what everything after `off` rests on: that the machine was off a
// moment ago, and what the Node looked like after that.
type proof struct {
	at    time.Time // when the device had answered
	heard Heard     // what the kubelet said to this proof's question
	node  Node
	gone  bool // the Node was deleted
}

// errAwake says that a machine which was off is not, or may not be. on says that its
// device reads power.
type errAwake struct {
	why string
	on  bool
}

func (e errAwake) Error() string { return e.why }

// prove begins with readPower, then does what is to be done between, then reads the Node:
// anything that between has read is younger than the power and older than the proof that
// the Node is still the same, has not booted, and gives no sign of life.
// The kubelet's silence takes time, and is waited for before: pods that were listed
// earlier would have changed, as Kubernetes itself ends those of a tainted Node. It waits
// until this leader saw the Lease silent for lease_age: what an earlier one saw may be
// over, and after a silence of the API server it is not known.
func (r *remedy) prove(ctx context.Context, m kubestate.Remediation, between func(context.Context) error) (proof,
	error) {
	p, err := r.readPower(ctx, m)
	if err != nil {
		return proof{}, err
	}
	if between != nil {
		if err := between(ctx); err != nil {
			return proof{}, err
		}
	}
	p.node, err = r.target.readNodeAndLease(ctx, m)
	switch {
	case errors.Is(err, errDeleted):
		p.gone = true
	case err != nil:
		return proof{}, err
	case p.node.BootID != r.target.boot:
		return proof{}, errAwake{why: "it has booted since it was off"}
	}
	alive, err := r.signs.life(m, p.heard, 0)
	switch {
	case err != nil:
		return proof{}, err
	case alive != "":
		return proof{}, errContradicted{alive}
	case !p.gone && !r.signs.silent(m):
		return proof{}, wait(lookAgain)
	}
	r.power.read = p.at
	return p, nil
}

// readPower is the beginning of a proof: its device says off, and its kubelet was asked. The
// reading of the proof right before, or of fencing, is as good for readingLife as a new
// one, which a device may take a second for: nothing that was done meanwhile needed its
// own. The kubelet is asked all the same, though its silence, which that proof waited
// for, is not waited for again; if it answers, the power is read. What fails later leaves no
// reading behind. A device that does not answer is asked again, and when that does not help,
// fencing begins again, with the next device if need be.
func (r *remedy) readPower(ctx context.Context, m kubestate.Remediation) (proof, error) {
	if !r.target.known { // else the device's answer could be compared with nothing but a name
		if _, err := r.target.readNode(ctx, m); err != nil && !errors.Is(err, errDeleted) {
			return proof{}, err
		}
	}
	d, configured := r.target.device(m.Device)
	if !configured {
		return proof{}, errAwake{why: fmt.Sprintf("device %s, which took its power, is not configured any more", m.Device)}
	}
	p := proof{at: r.power.read}
	r.power.read = time.Time{}
	if time.Since(p.at) < readingLife {
		if p.heard = r.target.knocking(ctx, againLimit)(); !p.heard.On() {
			return p, nil
		}
	}
	answer := r.target.knocking(ctx, proofLimit)
	limited, cancel := context.WithTimeout(ctx, fenceLimit)
	power, err := d.Power(limited, r.target.machine)
	cancel()
	if err != nil {
		err = fmt.Errorf("read its power: %w", err)
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return proof{}, err
	case err != nil:
		if r.tries++; r.tries > r.settings().Remedy.Retries {
			return proof{}, errAwake{why: err.Error()}
		}
		r.log.Warn("fence device does not answer", "kube_node", r.target.machine.Node, "tries", r.tries, "err", err)
		return proof{}, wait(r.settings().Remedy.RetryInterval)
	case power != PowerOff:
		return proof{}, errAwake{why: fmt.Sprintf("device %s says %v", m.Device, power), on: power == PowerOn}
	}
	p.at = time.Now()
	p.heard = answer()
	return p, nil
}

// errContradicted says that the machine lives though its device says off.
type errContradicted struct{ alive string }

func (e errContradicted) Error() string { return e.alive }

// unproven decides what follows a proof that failed. Nothing is done without one, and
// the taint of a machine that has power is taken away: Kubernetes itself would go on
// with it while this leader looks.
func (r *remedy) unproven(ctx context.Context, m kubestate.Remediation, err error) error {
	var awake errAwake
	var contradicted errContradicted
	switch {
	case errors.As(err, &contradicted):
		return r.stuck(ctx, m, fmt.Sprintf("%sdevice %s says off, and %s", contradiction, m.Device, contradicted.alive))
	case !errors.As(err, &awake):
		return r.lost(ctx, m, err)
	case awake.on:
		if err := r.untaint(ctx, m); err != nil {
			return err
		}
	}
	switch {
	case r.judge.Well(m.UID):
		n, err := r.target.readNode(ctx, m)
		if err != nil {
			return r.lost(ctx, m, err)
		}
		return r.back(ctx, m, n)
	case !r.signs.looked(m):
		return wait(lookAgain)
	}
	return r.move(ctx, m, kubestate.RemFencing, "", awake.why)
}

// taint is the turn of a machine that is off: Kubernetes may let go of its volumes.
func (r *remedy) taint(ctx context.Context, m kubestate.Remediation) error {
	p, err := r.prove(ctx, m, nil)
	if err != nil {
		return r.unproven(ctx, m, err)
	}
	if p.gone {
		return r.move(ctx, m, kubestate.RemTainted, "", errDeleted.Error()+": there is nothing to taint")
	}
	if err := r.target.keepTaint(ctx, m, p.node); err != nil {
		return err
	}
	return r.move(ctx, m, kubestate.RemTainted, "", "")
}

// empty is the turn of a tainted Node: its pods are deleted until none is left.
func (r *remedy) empty(ctx context.Context, m kubestate.Remediation) error {
	left, _, err := r.batch(ctx, m)
	switch {
	case err != nil:
		return err
	case len(left) > 0:
		return r.linger(ctx, m, left)
	}
	return r.move(ctx, m, kubestate.RemDeleted, "",
		fmt.Sprintf("%d pods deleted under this leadership, none is left", r.pods.deleted))
}

// batch deletes pods on the strength of one proof and returns that and the pods that
// there were. One that only its finalizers keep is not deleted again, and those that
// could not be deleted before come last.
func (r *remedy) batch(ctx context.Context, m kubestate.Remediation) (left []Pod, p proof, err error) {
	p, err = r.prove(ctx, m, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, r.settings().Remedy.Timeout)
		defer cancel()
		all, err := r.cluster.Pods(ctx, m.Node)
		if err != nil {
			return fmt.Errorf("list the pods: %w", err)
		}
		left = r.eligible(all)
		return nil
	})
	if err != nil {
		return nil, p, r.unproven(ctx, m, err)
	}
	due := slices.DeleteFunc(slices.Clone(left), func(p Pod) bool { return p.Finalizing })
	if len(due) == 0 {
		return left, p, nil
	}
	if !p.gone {
		if err := r.target.keepTaint(ctx, m, p.node); err != nil {
			return nil, p, err
		}
	}
	r.power.read = time.Time{} // one reading is not for two batches
	r.pods.queue(due)
	return left, p, r.deletePods(ctx, p, due)
}

// deletePods deletes pods on the strength of one proof. One whose deletion fails, as an
// admission webhook refuses it, keeps no other: the first error comes once none was deleted,
// or all were tried. A pod that has changed since it was read is left to the next proof,
// with all after it: its kubelet may have written that.
func (r *remedy) deletePods(ctx context.Context, p proof, due []Pod) error {
	var failed []string
	var first error
	tried, before := 0, r.pods.deleted
	for _, pod := range due[:min(len(due), maxBatch)] {
		if time.Since(p.at) > batchLife {
			break
		}
		err := r.deletePod(ctx, pod)
		tried++
		switch {
		case err == nil:
			r.pods.deleted++
			r.tries, r.busy = 0, time.Time{}
			continue
		case ctx.Err() != nil, errors.As(err, new(errUnproven)):
			return err
		}
		r.pods.failed[pod.UID] = time.Now()
		if errors.Is(err, ErrConflict) {
			return nil
		}
		failed, first = append(failed, pod.Namespace+"/"+pod.Name), cmp.Or(first, err)
	}
	if first == nil || tried < len(due) && r.pods.deleted > before {
		return nil
	}
	return fmt.Errorf("the deletion of %s failed: %w", listed(failed), first)
}

// evacuation is how far the deletion of pods has come under one leadership.
type evacuation struct {
	deleted  int       // pods
	fewest   int       // pods that were left in this state at least; 0 before the first look
	progress time.Time // when they became fewer
	idle     time.Duration
	failed   map[string]time.Time // when the deletion of a pod, by its UID, failed last
}

// queue puts pods that could not be deleted behind all others, and forgets those that are
// not due any more.
func (e *evacuation) queue(due []Pod) {
	failed := make(map[string]time.Time)
	for _, p := range due {
		if at, known := e.failed[p.UID]; known {
			failed[p.UID] = at
		}
	}
	e.failed = failed
	slices.SortStableFunc(due, func(a, b Pod) int { return failed[a.UID].Compare(failed[b.UID]) })
}

// linger decides when to look again at a Node on which pods are left: at once while
// they become fewer, else after a pause that grows. Of pods that stay for podLimit, as
// a finalizer or another writer wants it, it says for the operator which they are.
func (r *remedy) linger(ctx context.Context, m kubestate.Remediation, left []Pod) error {
	e := &r.pods
	if e.fewest == 0 || len(left) < e.fewest {
		e.fewest, e.progress, e.idle = len(left), time.Now(), 0
		return nil
	}
	if stood := time.Since(e.progress); stood > podLimit {
		names := make([]string, 0, len(left))
		held := 0
		for _, p := range left {
			names = append(names, p.Namespace+"/"+p.Name)
			if p.Finalizing {
				held++
			}
		}
		return r.stuck(ctx, m, fmt.Sprintf("%d pods are left since %v, %d of them held by finalizers alone: %s", len(left),
			rounded(stood), held, listed(names)))
	}
	e.idle = min(max(detachFirst, e.idle*3/2), proveEvery)
	return wait(e.idle)
}

// deletePod deletes a pod as it was read. One that is gone is what we want.
func (s *clusterController) deletePod(ctx context.Context, p Pod) error {
	err := s.write(ctx, s.settings().Remedy.Timeout, fmt.Sprintf("delete pod %s/%s", p.Namespace, p.Name),
		func(ctx context.Context) error {
			return s.cluster.DeletePod(ctx, p)
		})
	switch {
	case errors.Is(err, ErrGone):
		return nil
	case err == nil:
		s.log.Info("pod deleted", "namespace", p.Namespace, "pod", p.Name, "uid", p.UID, "kube_node", p.Node)
	}
	return err
}

// eligible leaves out what is kept.
func (s *clusterController) eligible(pods []Pod) []Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return s.settings().Remedy.keeps(p) != "" })
}

// detach is the turn of a Node without pods: it lasts until none of its volumes is
// attached. Pods that come late are deleted as the others were.
func (r *remedy) detach(ctx context.Context, m kubestate.Remediation) error {
	pauseNow, proven := detachFirst, time.Time{}
	for {
		if time.Since(proven) >= proveEvery {
			left, p, err := r.batch(ctx, m)
			switch {
			case err != nil:
				return err
			case len(left) > 0:
				return r.linger(ctx, m, left)
			case p.gone:
				return r.lost(ctx, m, errDeleted)
			}
			proven = p.at
		}
		names, err := r.target.attachments(ctx)
		switch {
		case err != nil:
			return err
		case len(names) == 0:
			return r.move(ctx, m, kubestate.RemDetached, "", "")
		case time.Since(r.since) > DetachLimit:
			return r.stuck(ctx, m, fmt.Sprintf("volumes are still attached after %v: %s", DetachLimit,
				strings.Join(names, ", ")))
		}
		if !pace.Wait(ctx, pauseNow) {
			return ctx.Err()
		}
		pauseNow = min(pauseNow*3/2, detachLast)
	}
}
