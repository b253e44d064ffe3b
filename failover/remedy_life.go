package failover

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/kubeclient"
)

const (
	// knockLimit bounds the question to the kubelet between the two readings of the
	// power that count, and proofLimit the one that goes along with each later reading: there it
	// must not delay the work that waits. A living kubelet answers at once; one that
	// does not is left to the probes of the peers. againLimit bounds the one right after one
	// that brought no answer.
	knockLimit = time.Second
	proofLimit = 250 * time.Millisecond
	againLimit = 25 * time.Millisecond
	// lateRenewal is how long after the machine was off a renewal of its Lease may
	// still reach the storage. It does not contradict the device; the wait for a
	// silent Lease begins again with it.
	lateRenewal = 2 * time.Second
)

// lifeSigns are those of one machine as one leadership knows them. They belong to one
// goroutine.
type lifeSigns struct {
	*clusterController
	sure  time.Time // of the newest proof that it was off: what the kubelet does later contradicts it
	hears time.Time // since when peers hear it though it was read off; zero if none does
}

// life returns the sign of life that a machine gave although its device says off, ""
// if it gave none. heard is what its kubelet just said, and renewals count that came
// later than late after the machine was off.
//
// Only what has changed is a sign: a Node shows Ready for up to 55 s after its machine
// lost power, and a peer needs some questions until it takes back that it hears a
// kubelet. Peers are waited for that long, and nothing is done meanwhile.
func (l *lifeSigns) life(m kubestate.Remediation, heard Heard, late time.Duration) (string, error) {
	if heard.On() {
		return "its kubelet answers" + l.orAnothers(m), nil
	}
	if renewed := l.renewed(m, late); renewed != "" {
		return renewed, nil
	}
	v, _ := l.o.Log.Changed()
	if k, _ := v.KubeNode(m.Cluster, m.UID); k.Ready == kubestate.ReadyTrue && k.Changed > offSince(m) {
		return "it became Ready since", nil
	}
	_, answers, voters := v.KubeVotes(m.Cluster, m.UID)
	// A machine that was shut down on purpose and read off counts as silent while no more peers hear it than said so
	// before: they take back what they heard when its kubelet ran.
	n, _ := l.tracker.Look().node(m.UID)
	switch p := l.settings().Probe; {
	case answers == 0, n.Shutdown.Proven && answers <= n.Shutdown.Heard:
		l.hears = time.Time{}
	case l.hears.IsZero():
		l.hears = time.Now()
		return "", wait(lookAgain)
	case time.Since(l.hears) > time.Duration(p.Misses+1)*(p.Interval+p.Timeout):
		return fmt.Sprintf("%d of %d peers hear its kubelet", answers, voters), nil
	default:
		return "", wait(lookAgain)
	}
	return "", nil
}

// orAnothers says in a clause whose kubelet the one may be that answers, "" if no other Node tells that address.
func (l *lifeSigns) orAnothers(m kubestate.Remediation) string {
	w := l.tracker.Look()
	own, there := w.node(m.UID)
	for _, n := range w.Nodes {
		if there && n.UID != m.UID && n.has(own.Kubelet) {
			return fmt.Sprintf(" at %s, or that of Node %s, which tells this address, too", own.Kubelet, n.Name)
		}
	}
	return ""
}

// offSince is the cluster time since when the log says that a machine is off; the end
// of time while it does not.
func offSince(m kubestate.Remediation) fsm.Time {
	switch m.State {
	case kubestate.RemOff, kubestate.RemTainted, kubestate.RemDeleted, kubestate.RemDetached:
		for _, s := range slices.Backward(m.Steps) {
			if s.State == kubestate.RemOff {
				return s.At
			}
		}
	}
	return math.MaxInt64
}

// looked reports whether this leader knows whether a machine lives: it saw its Lease
// change not longer than lease_age ago, or not change for that long while the API
// server answered. Earlier leaders may have found it dead long ago.
func (l *lifeSigns) looked(m kubestate.Remediation) bool {
	w, age := l.tracker.Look(), l.settings().Detection.LeaseAge
	n, there := w.node(m.UID)
	gone := w.Synced && w.API.Answers && !there // which the storage has to confirm
	return gone || there && n.Renewed >= 0 && n.Renewed < age || l.silent(m)
}

// silent reports whether this leader saw the Lease of a Node unchanged for
// lease_age, while the API server answered. What an earlier leader saw, and what
// Ready says, does not count here.
func (l *lifeSigns) silent(m kubestate.Remediation) bool {
	w, age := l.tracker.Look(), l.settings().Detection.LeaseAge
	n, there := w.node(m.UID)
	switch {
	case !there || !w.API.Answers:
		return false
	case n.Leased:
		return n.LeaseAge >= age || n.Shutdown.Proven
	}
	watching := time.Since(l.began) >= age && time.Since(l.sure) >= age
	return watching && (w.API.Back < 0 || w.API.Back >= age) // a kubelet that lives makes a Lease
}

// renewed returns a sentence if the Lease was seen to change later than a time after
// the machine was off.
func (l *lifeSigns) renewed(m kubestate.Remediation, after time.Duration) string {
	if w, there := l.tracker.Look().node(m.UID); there && w.Renewed >= 0 && time.Since(l.sure)-w.Renewed > after {
		return fmt.Sprintf("its Lease was renewed %v ago", rounded(w.Renewed))
	}
	return ""
}

// heartbeat reads a Lease from the storage and tells the tracker: the watch may be
// behind.
func (s *clusterController) heartbeat(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, s.settings().Remedy.Timeout)
	defer cancel()
	renewal, err := s.cluster.Renewal(ctx, node)
	switch {
	case errors.Is(err, ErrGone):
		return nil
	case err != nil:
		return fmt.Errorf("read the Lease: %w", err)
	}
	s.tracker.Renewed(node, renewal)
	return nil
}

// readmit takes our out-of-service taint from a machine that lives after all: while it
// has it, Kubernetes itself deletes what a kubelet without the API server runs. The
// cordon stays.
func (r *remedy) readmit(ctx context.Context, m kubestate.Remediation) error {
	if w, there := r.tracker.Look().node(m.UID); !there || !slices.Contains(w.Taints, outOfService()) {
		return nil
	}
	return r.untaint(ctx, m)
}

// untaint is readmit where the watch may be behind: it goes by the storage. A Node without the
// taint gets the token of this leadership all the same: the taint may be in the hand of an
// earlier leader, who read the Node when its machine was off, and is refused for one that
// was written since. So is a request of this leader that got no answer and is under way yet.
func (r *remedy) untaint(ctx context.Context, m kubestate.Remediation) error {
	n, err := r.target.readNode(ctx, m)
	if err != nil {
		return r.lost(ctx, m, err)
	}
	switch {
	case slices.Contains(n.Taints, outOfService()):
		_, err = r.mark(ctx, n, Change{Remove: []Taint{outOfService()}},
			"take the out-of-service taint from a machine that lives")
	case n.Annotations[kubeclient.AnnotationToken] != r.a.Token().String():
		_, err = r.mark(ctx, n, Change{}, "mark the Node of a machine that lives")
	case n.ResourceVersion == r.target.asked:
		// Without our cordon, and with it again, the Node is another one for requests that are under way.
		cordon := slices.DeleteFunc(slices.Clone(n.Taints), func(have Taint) bool { return have.Key != TaintCordon })
		n, err = r.mark(ctx, n, Change{Remove: cordon}, "renew the cordon of the Node of a machine that lives")
		if err == nil {
			_, err = r.target.keepCordon(ctx, m, n)
		}
	}
	return err
}
