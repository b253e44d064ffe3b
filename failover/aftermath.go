package failover

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// What a remediation leaves behind when it ends: an operator's cancel, and what has shown
// that a fence device does not say how the machine is. The log keeps both for
// kubestate.Keep, in its steps.

// byCancel begins nothing after an operator's cancel before the kube node was well again,
// or an operator says that it may be fenced.
func byCancel(f *facts, n *nodeFacts) string {
	if n.remediation != nil || n.cancelled == nil {
		return ""
	}
	return fmt.Sprintf("remediation %v of it was cancelled by %s %v ago, and it was not well since: "+
		"'trivet failover release %s --to fencing' lets it be fenced before", n.cancelled.Intent, by(*n.cancelled),
		rounded(f.clock.Sub(n.cancelled.Since)), n.Name)
}

func by(r kubestate.Remediation) string {
	if who := r.Steps[len(r.Steps)-1].Peer; who != "" {
		return who
	}
	return "an operator"
}

// byContradiction neither commands nor believes a device that said off of a machine which
// gave signs of life: silence that follows proves nothing about a device that was wrong
// before, and each command switches another machine off. It goes by the name of the Node,
// which is what a device is mapped to.
func byContradiction(f *facts, n *nodeFacts) string {
	r, why := foundOut(f.history, n.Name)
	if why == "" {
		return ""
	}
	return fmt.Sprintf("its device was found out in remediation %v (%s): look at its mapping with "+
		"'trivet failover test-fence %s'; once it is right, 'trivet failover release %s --to fencing' lets it be used again", r.Intent, why, n.Name, n.Name)
}

// foundOut returns the newest remediation of a kube node in which its device was
// contradicted, and by what; "" if there is none or an operator has let it be fenced since.
// One that is stuck for it now says so itself. history has the newest first.
func foundOut(history []kubestate.Remediation, node string) (in kubestate.Remediation, why string) {
	for _, r := range history {
		if r.Node != node || contradicted(r) {
			continue
		}
		for i, s := range slices.Backward(r.Steps) {
			if r.LetsFence(i) {
				return r, ""
			}
			if why, found := strings.CutPrefix(s.Reason, contradiction); found && s.State == kubestate.RemStuck {
				return r, why
			}
		}
	}
	return kubestate.Remediation{}, ""
}

// byUnreadFences gives no command to a kube node that an operator released after its device was found out, while
// the leader's list of devices is not the one of its file: it may be the wrong one still.
func byUnreadFences(_ *facts, n *nodeFacts) string { return n.unread }

// noteUnread asks why the devices in force are not those of their file, of kube nodes of which that matters.
func noteUnread(f *facts, unread func() string) {
	for _, r := range f.history {
		released := slices.ContainsFunc(r.Steps, func(s kubestate.Step) bool { return s.Operator })
		if unread == nil || !released || !releasedUnproven(f.history, r.Node) {
			continue
		}
		if n := f.find(func(n *nodeFacts) bool { return n.Name == r.Node }); n != nil {
			n.unread = unread()
		}
	}
}

// releasedUnproven reports whether a kube node was released whose device had been found out, and no device has been
// believed since. history has the newest first.
func releasedUnproven(history []kubestate.Remediation, node string) bool {
	released := false
	for _, r := range history {
		if r.Node != node {
			continue
		}
		for i, s := range slices.Backward(r.Steps) {
			switch {
			case r.LetsFence(i):
				released = true
			case s.State == kubestate.RemOff:
				return false
			case s.State == kubestate.RemStuck && strings.HasPrefix(s.Reason, contradiction):
				return released
			}
		}
	}
	return false
}

// AwaitsWord returns the remediation that has ended and keeps a kube node from being fenced
// until an operator says that it may be.
func AwaitsWord(v fsm.View, cluster, node string) (in kubestate.Remediation, awaits bool) {
	var history []kubestate.Remediation
	for _, r := range v.RemediationHistory(0) {
		if r.Cluster == cluster && r.Node == node {
			history = append(history, r)
		}
	}
	if r, why := foundOut(history, node); why != "" {
		return r, r.State.Ended()
	}
	if len(history) > 0 && history[0].HeldByCancel() {
		return history[0], true
	}
	return kubestate.Remediation{}, false
}

// noteOf is the note that the kube node of a remediation that has ended is well again.
func noteOf(r kubestate.Remediation) kubestate.StepRemediation {
	return kubestate.StepRemediation{Intent: r.Intent, From: r.State, To: r.State, Reason: "the kube node is well again"}
}

// noteWell notes of the kube nodes whose remediation an operator cancelled that they are
// well again: another leader may be the first to see the next death.
func noteWell(ctx context.Context, s *clusterController) {
	v, _ := s.o.Log.Changed()
	for _, r := range v.RemediationHistory(0) {
		if r.Cluster != s.cluster.Name() || !r.HeldByCancel() || !s.judge.Well(r.UID) {
			continue
		}
		note := noteOf(r)
		if note.Peer, note.Millis = s.o.Peer, s.o.Wall().UnixMilli(); v.Admits(note) != nil {
			return
		}
		if err := s.record(ctx, note); err != nil && ctx.Err() == nil {
			s.failing.Warn("record that a kube node is well again failed, retrying", "kube_node", r.Node, "err", err)
		}
	}
}
