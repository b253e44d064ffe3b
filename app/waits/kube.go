package waits

import (
	"cmp"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// kube lists the remediations that are open, and what holds others back.
func (j judge) kube(l *list) {
	for _, p := range j.View.FailoverPauses() {
		w := j.wait("failover/paused", "failover in "+cmp.Or(p.Cluster, "all clusters"), "",
			cmp.Or(p.By, "an operator")+" paused it")
		w.Since = millis(p.Millis)
		if p.Until != 0 {
			j.limit(&w, p.Until, "")
		} else {
			w.Then = "no time limit: remediations begin again when it is resumed"
		}
		l.add(w, "")
	}
	for _, name := range j.View.KubeClusters() {
		if h, held := j.View.FailoverHold(name); held {
			w := j.wait("failover/held", "failover in "+name, "", h.Reason)
			w.Since = j.clock(h.Since)
			j.limit(&w, h.Until, "")
			l.add(w, "")
		}
	}
	for _, r := range j.View.Remediations() {
		l.add(j.remediation(r), "")
	}
}

func (j judge) remediation(r kubestate.Remediation) api.Wait {
	name := r.Cluster + "/" + r.Node
	last := r.Steps[len(r.Steps)-1]
	w := j.wait("remediation/"+r.State.String(), "kube node "+name, name, "")
	switch r.State {
	case kubestate.RemStuck:
		w.For += ": " + last.Reason
	case kubestate.RemFencing:
		w.For += ": device " + r.Device
	}
	w.Since = j.clock(r.Since)
	pause, paused := j.View.FailoverPause(r.Cluster)
	switch {
	case j.Idle != "":
		w.For += "; it is not carried out: " + j.Idle
		w.Then = "no time limit: it ends when its machine is back"
	case paused && takesPower(r.State):
		w.For += "; failover is paused"
		if pause.Until != 0 {
			j.limit(&w, pause.Until, "the pause ends, and it goes on")
		}
	case r.State == kubestate.RemDeleted:
		j.limit(&w, max(r.Since, j.View.Leadership().At).Add(failover.DetachLimit), "")
	}
	return w
}

// takesPower reports whether a pause holds a remediation in a state.
func takesPower(s kubestate.State) bool {
	return s == kubestate.RemIntent || s == kubestate.RemCordoned || s == kubestate.RemFencing
}
