package simtest

import (
	"time"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

const (
	// proofLife is for how long failover may act on a proof of leadership.
	proofLife = 2 * time.Second
	// readingLife is for how long it may act on a reading of the power, and how late
	// a request may be.
	readingLife = 6 * time.Second
	// healthyFor is how long a machine must be up and reachable to count as healthy:
	// a new leader sees the second renewal of a Lease only after ten seconds, and a
	// majority of the peers needs a question each.
	healthyFor = 20 * time.Second
	// goneFor is how long a machine may be away while it still counts as returned: its
	// Lease is young, and each peer needs some questions until it takes back that it
	// hears the kubelet.
	goneFor = 20 * time.Second
)

// note keeps a write as it is sent. Whoever sends it has proven, not longer ago
// than the life of a proof, that nobody was elected after it.
func (k *KubeSite) note(w kubeWrite) {
	if late := k.c.Oracle.deposed(w.token, w.at); late > proofLife {
		k.c.Oracle.broken("proven: %s sent %q of %s under token %d, %v after a later leadership had begun", w.peer, w.what,
			w.node, w.token, late)
	}
	k.with(func() { k.writes = append(k.writes, w) })
}

// touched judges the token of a write at the moment of its effect.
func (k *KubeSite) touched(w kubeWrite, n *kubeNode) {
	if w.token < n.writer {
		k.c.Oracle.broken("tokens-rise: %s did %q to %s under token %d, token %d was there before", w.peer, w.what, n.Name,
			w.token, n.writer)
	}
	n.writer = max(n.writer, w.token)
}

// judgeOff is asked when a command to take the power goes out. What was announced
// was so when the leader looked; a command that left under a proof of leadership may
// cross a later leader's.
func (k *KubeSite) judgeOff(w kubeWrite, n *kubeNode, v fsm.View) {
	if !n.well.IsZero() && time.Since(n.well) > healthyFor {
		k.c.Oracle.broken("nothing-healthy-fenced: %s took the power of %s, which has been well for %v", w.peer, n.Name,
			time.Since(n.well))
	}
	m, open := v.OpenRemediation(kubeCluster, n.UID)
	if (!open || m.State != kubestate.RemFencing || m.Device != fenceName) &&
		k.c.Oracle.deposed(w.token, time.Now()) == 0 {
		k.c.Oracle.broken("order: %s took the power of %s unannounced: %v %v", w.peer, n.Name, open, m.State)
	}
}

// judgeLetGo is asked when Kubernetes is told that it may give away what a machine
// has: the log says that it was off, and it is. A request of a leader that was stopped
// meanwhile is held back by the versions of what it read.
func (k *KubeSite) judgeLetGo(w kubeWrite, n *kubeNode, v fsm.View) {
	m, open := v.OpenRemediation(kubeCluster, n.UID)
	switch {
	case !open || !m.WasOff:
		k.c.Oracle.broken("order: %s did %q to %s before `off` was logged: %v %v", w.peer, w.what, n.Name, open, m.State)
	case n.on && !n.heard.IsZero() && time.Since(n.heard) > readingLife && k.c.Oracle.deposed(w.token, time.Now()) == 0:
		k.c.Oracle.broken("living: %s did %q to %s, which has been heard for %v", w.peer, w.what, n.Name, time.Since(n.heard))
	case n.lies: // none hears it
	case n.on && time.Since(n.up)+kubeBoot > readingLife && k.c.Oracle.deposed(w.token, time.Now()) == 0:
		k.c.Oracle.broken("order: %s did %q to %s, which has had power for %v", w.peer, w.what, n.Name,
			time.Since(n.up)+kubeBoot)
	}
}

// judgeMark looks at what a change of a Node means. While a remediation is open, the
// taint may be taken from a machine that is back, was until a moment ago, or has power as
// its device says, which refutes that it is off; and from one that gave signs of life,
// which may be started again by hand meanwhile. Where none is open the taint is left
// over: the remediation was cancelled, or a restored backup does not know it.
func (k *KubeSite) judgeMark(w kubeWrite, n *kubeNode, c failover.Change, v fsm.View) {
	k.touched(w, n)
	if outOfService(failover.Node{Taints: c.Add}) {
		k.judgeLetGo(w, n, v)
	}
	m, open := v.OpenRemediation(kubeCluster, n.UID)
	kept := open && m.State != kubestate.RemStuck // by a remediation that goes on
	gone := !n.away.IsZero() && time.Since(n.away) > goneFor && (!n.on || n.lies)
	if outOfService(failover.Node{Taints: c.Remove}) && gone && kept {
		k.c.Oracle.broken("order: %s took the taint from %s, which has been away for %v; its remediation is %v", w.peer,
			n.Name, time.Since(n.away), m.State)
	}
}

// judgeDelete looks at a pod that is taken away.
func (k *KubeSite) judgeDelete(w kubeWrite, n *kubeNode, p *kubePod, v fsm.View) {
	k.judgeLetGo(w, n, v)
	if n.on && !n.lies && n.runs[p.Name] == p.UID {
		k.c.Oracle.broken("order: %s did %q to %s, which %s runs", w.peer, w.what, p.Name, n.Name)
	}
	if !outOfService(n.Node) {
		k.c.Oracle.broken("order: %s did %q on %s before it was out of service", w.peer, w.what, n.Name)
	}
}

// sent returns the writes that a peer sent from a moment on under a token.
func (k *KubeSite) sent(peer string, token uint64, since time.Time) (out []kubeWrite) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.writes {
		if w.peer == peer && w.token == token && !w.at.Before(since) {
			out = append(out, w)
		}
	}
	return out
}

// fenced counts the power-off commands so far.
func (k *KubeSite) fenced() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.writes {
		if w.what == callOff {
			n++
		}
	}
	return n
}
