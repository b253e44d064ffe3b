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
