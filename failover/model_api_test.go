package failover

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/kubeclient"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Name implements Cluster.
func (*hand) Name() string { return "k" }

// Watch implements Watcher, by comparing.
func (h *hand) Watch(ctx context.Context, seen Seen, synced func()) error {
	versions, leases := make(map[string]Node), make(map[string]int)
	for first := true; ; first = false {
		h.stands()
		nodes, renewals, gone := h.changes(versions, leases)
		for _, n := range gone {
			seen.NodeGone(n.Name, n.UID)
		}
		for _, n := range nodes {
			seen.Node(n)
		}
		for _, name := range slices.Sorted(maps.Keys(renewals)) {
			seen.Renewed(name, renewalNo(renewals[name]))
		}
		if first {
			synced()
		}
		if !pace.Wait(ctx, modelTick) {
			return nil
		}
	}
}

func (h *hand) changes(versions map[string]Node, leases map[string]int) (nodes []Node, renewals map[string]int,
	gone []Node) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	renewals = make(map[string]int)
	if h.w.trouble.silent {
		return nil, renewals, nil
	}
	for name, old := range versions {
		if n := h.w.nodes[name]; n == nil || n.UID != old.UID {
			gone = append(gone, old)
			delete(versions, name)
			delete(leases, name)
		}
	}
	for _, name := range h.w.names() {
		n := h.w.nodes[name]
		if n == nil {
			continue
		}
		if versions[name].ResourceVersion != n.ResourceVersion && !h.w.trouble.noNodes {
			versions[name] = n.copied()
			nodes = append(nodes, n.copied())
		}
		if leases[name] != n.lease && !h.w.trouble.noLeases {
			leases[name] = n.lease
			renewals[name] = n.lease
		}
	}
	return nodes, renewals, gone
}

func renewalNo(n int) Renewal {
	return Renewal{At: time.Unix(int64(n)*10, 0).UTC().Format(time.RFC3339), Version: uint64(n)}
}

func (n *apiNode) copied() Node {
	c := n.Node
	c.Taints = slices.Clone(n.Taints)
	c.Annotations = maps.Clone(n.Annotations)
	return c
}

// Answers implements Watcher.
func (h *hand) Answers(ctx context.Context) error {
	h.stands()
	return h.serving(ctx, "")
}

// serving is what every request meets.
func (h *hand) serving(ctx context.Context, verb string) error {
	var t trouble
	h.w.with(func() { t = h.w.trouble })
	switch {
	case t.silent:
		pace.Wait(ctx, 3*time.Second)
		return fmt.Errorf("%s: no answer: %w", verb, context.DeadlineExceeded)
	case verb != "" && t.forbidden == verb:
		return fmt.Errorf("%w: cannot %s", ErrForbidden, verb)
	case verb != "" && t.busy == verb:
		return fmt.Errorf("%s: %w: 503", verb, ErrBusy)
	}
	return nil
}

// ask is a request.
func (h *hand) ask(ctx context.Context, verb string, deed func() error) error {
	if err := h.serving(ctx, verb); err != nil {
		return err
	}
	return h.do(ctx, verb, deed)
}

// Node implements NodeReader.
func (h *hand) Node(ctx context.Context, name string) (n Node, err error) {
	err = h.ask(ctx, "get node", func() error {
		have := h.w.nodes[name]
		if have == nil {
			return ErrGone
		}
		n = have.copied()
		return nil
	})
	return n, err
}

// Renewal implements NodeReader.
func (h *hand) Renewal(ctx context.Context, name string) (renewal Renewal, err error) {
	err = h.ask(ctx, "get lease", func() error {
		have := h.w.nodes[name]
		if have == nil {
			return ErrGone
		}
		renewal = renewalNo(have.lease)
		renewal.Stored = true
		return nil
	})
	return renewal, err
}

// Mark implements NodeWriter.
func (h *hand) Mark(ctx context.Context, as Node, c Change) (n Node, err error) {
	patch := func() error {
		have := h.w.nodes[as.Name]
		if have == nil {
			return ErrGone
		}
		old, _ := fencing.ParseToken(have.Annotations[kubeclient.AnnotationToken])
		switch {
		case have.UID != as.UID, have.ResourceVersion != as.ResourceVersion, c.Token < uint64(old):
			return ErrConflict
		}
		have.Taints = slices.DeleteFunc(have.Taints, func(t Taint) bool { return slices.Contains(c.Remove, t) })
		have.Taints = append(have.Taints, c.Add...)
		have.Annotations[kubeclient.AnnotationToken] = strconv.FormatUint(c.Token, 10)
		h.w.touch(have)
		for _, t := range c.Add {
			h.w.note(h, "add "+t.Key, as.Name, have.UID)
		}
		for _, t := range c.Remove {
			h.w.note(h, "remove "+t.Key, as.Name, have.UID)
		}
		if h.w.trouble.losesTaint > 0 && slices.Contains(c.Add, outOfService()) {
			h.w.trouble.losesTaint--
			have.Taints = nil
			h.w.touch(have)
		}
		n = have.copied()
		return nil
	}
	err = h.ask(ctx, "patch node", func() error {
		if late := h.w.trouble.late; late != nil && late.arrive == nil && slices.Contains(c.Add, outOfService()) {
			late.arrive = patch
			return fmt.Errorf("patch the Node: no answer: %w", context.DeadlineExceeded)
		}
		return patch()
	})
	return n, err
}

// Pods implements PodStore.
func (h *hand) Pods(ctx context.Context, node string) (pods []Pod, err error) {
	err = h.ask(ctx, "list pods", func() error {
		for _, p := range h.w.podsOn(node) {
			if pods = append(pods, p.Pod); p.Name == h.w.trouble.restless {
				h.w.touchPod(p)
			}
		}
		return nil
	})
	return pods, err
}

// DeletePod implements PodStore. The oracle sees whether what is deleted still runs
// where nobody ends it.
func (h *hand) DeletePod(ctx context.Context, p Pod) error {
	var slow time.Duration
	h.w.with(func() { slow = h.w.trouble.slowDelete })
	pace.Wait(ctx, slow)
	return h.ask(ctx, "delete pod", func() error {
		have := h.w.pods[p.Name]
		switch {
		case h.w.trouble.failDelete > 0:
			h.w.trouble.failDelete--
			return fmt.Errorf("the request timed out")
		case p.Name == h.w.trouble.guarded:
			return fmt.Errorf("%w: the webhook denied the request", ErrForbidden)
		case have == nil, p.UID != "" && have.UID != p.UID:
			return ErrGone
		case p.ResourceVersion != "" && have.ResourceVersion != p.ResourceVersion:
			return ErrConflict
		}
		h.w.judgeDeletion(h, have)
		h.w.remove(have)
		h.w.note(h, "delete", have.Node, have.UID)
		return nil
	})
}

// judgeDeletion notes what no leader in the safe mode may do; and that one which
// leads has not looked at the power for too long. One that does not know yet that
// it leads no more is held back by the versions of what it read.
func (w *world) judgeDeletion(h *hand, p *apiPod) {
	c := w.pcs[p.Node]
	switch {
	case h.c.o.Settings.Mode != ModeSafe || !c.on:
	case c.runs[p.Name] == p.UID:
		w.blame("deleted pod %s while %s runs it", p.Name, p.Node)
	case time.Since(c.lit) > modelReading && w.ledger.view().Leadership().Token == h.token: // in a bubble
		w.blame("deleted pod %s though %s has had power for %v", p.Name, p.Node, time.Since(c.lit))
	}
}

// Attachments implements NodeReader.
func (h *hand) Attachments(ctx context.Context, node string) (names []string, err error) {
	err = h.ask(ctx, "list volumeattachments", func() error {
		for name, v := range h.w.attached {
			if v.node == node {
				names = append(names, "csi-"+name)
			}
		}
		return nil
	})
	return names, err
}

// Disrupted implements PodStore.
func (h *hand) Disrupted(ctx context.Context, _ []Pod, lacking bool) (names []string, err error) {
	err = h.ask(ctx, "list poddisruptionbudgets", func() error {
		if !lacking || h.w.trouble.lacking {
			names = h.w.trouble.exhausted
		}
		return nil
	})
	return names, err
}

// Tell implements NodeWriter. Events are for people; no test stops at one.
func (h *hand) Tell(ctx context.Context, n Node, _, reason, _ string) error {
	h.stands()
	if err := h.serving(ctx, "create events"); err != nil {
		return err
	}
	h.w.with(func() { h.w.note(h, "event "+reason, n.Name, n.UID) })
	return nil
}

// watchRules notes in the world what no entry of the log may do.
func (w *world) watchRules() {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	w.ledger.check = func(before, after fsm.View, c fsm.Command) {
		step, ok := c.(kubestate.StepRemediation)
		if !ok || step.To != kubestate.RemOff {
			return
		}
		m, _ := after.Remediation(step.Intent)
		p := w.pcs[m.Node]
		looks, since := 0, time.Time{}
		for _, r := range p.reads {
			switch {
			case !r.off:
				looks = 0
			case looks == 0:
				looks, since = 1, r.at
			case r.at.Sub(since) >= modelConfirm:
				looks++
			}
		}
		switch {
		case p.offs == 0:
			w.blame("off was logged of %s without a power-off command", m.Node)
		case looks < 2:
			w.blame("off was logged of %s after %d looks at it", m.Node, looks)
		case p.on && p.fault == "" && time.Since(p.lit) > modelReading:
			w.blame("off was logged of %s, which has had power for %v", m.Node, time.Since(p.lit))
		case p.alive() && p.reads[len(p.reads)-1].alive:
			w.blame("off was logged of %s, whose kubelet runs", m.Node)
		}
	}
}
