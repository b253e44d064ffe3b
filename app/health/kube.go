package health

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/raftstore"
)

// Kube is failover on this peer; nil: it is off. Methods may be called concurrently.
type Kube struct {
	Log        *raftstore.Store
	Mode       failover.Mode
	Clusters   []failover.Cluster
	Controller *failover.Controller
	Prober     *failover.Prober
	Figures    *KubeFigures
}

// warnings are what is wrong with failover, as this peer knows.
func (k *Kube) warnings(v fsm.View) []api.Warning {
	if k == nil {
		return nil
	}
	h := kubeHealth{mode: k.Mode, pauses: v.FailoverPauses(), open: v.Remediations(), faults: k.Prober.Faults(), silent: make(map[string]string)}
	for _, c := range k.Clusters {
		if w, leads := k.Controller.Watched(c.Name()); leads && !w.API.Answers {
			h.silent[c.Name()] = cmp.Or(w.API.Why, "it was not asked yet")
		}
	}
	return h.warnings()
}

// kubeHealth is what the warnings of failover are made of.
type kubeHealth struct {
	mode   failover.Mode
	pauses []kubestate.Pause
	open   []kubestate.Remediation
	faults map[string]string // by cluster: why this peer has no opinion
	silent map[string]string // by cluster: why its API server does not answer the leader
}

func (h kubeHealth) warnings() []api.Warning {
	var out warningList
	if h.mode == failover.ModeNooBaa {
		out.add("failover_unfenced", "set failover.mode to safe, and failover.fence_file", "failover.mode is noobaa: pods are deleted while their machine may still run them; one pod may run twice")
	}
	for _, r := range h.open {
		if r.State == kubestate.RemStuck {
			out.add("failover_stuck", "see 'trivet failover show "+r.Node+"'; then 'trivet failover release'", "the remediation of kube node %s/%s is stuck: %s", r.Cluster, r.Node, r.Steps[len(r.Steps)-1].Reason)
		}
	}
	for _, pause := range h.pauses {
		out.add("failover_paused", "'trivet failover resume', if the reason for the pause is over", "failover is paused in %s by %s", cmp.Or(pause.Cluster, "all clusters"), cmp.Or(pause.By, "an operator"))
	}
	for _, c := range slices.Sorted(maps.Keys(h.faults)) {
		out.add("failover_no_vote", "see whether this host reaches the kube nodes' port 10250", "this peer has no opinion of the kubelets of %s: %s", c, h.faults[c])
	}
	for _, c := range slices.Sorted(maps.Keys(h.silent)) {
		out.add("failover_api_silent", "see whether it answers from this host; no kube node is held for dead meanwhile", "the API server of %s does not answer: %s", c, h.silent[c])
	}
	return out
}

// note is failover's line of readyz, in a few words. It never makes a peer unready:
// requests are served in any case.
func (k *Kube) note() string {
	if k == nil {
		return "off"
	}
	c := k.counts(k.Log.View())
	note := fmt.Sprintf("mode %s; %d remediations open, %d of them stuck", c.Mode, c.Open, c.Stuck)
	if c.Paused {
		note += "; paused"
	}
	return note
}

// counts are nil where failover is off.
func (k *Kube) counts(v fsm.View) *api.FailoverCounts {
	if k == nil {
		return nil
	}
	out := &api.FailoverCounts{Mode: string(k.Mode), Paused: len(v.FailoverPauses()) > 0}
	open := v.Remediations()
	out.Open = len(open)
	out.Stuck = len(slices.DeleteFunc(open, func(r kubestate.Remediation) bool { return r.State != kubestate.RemStuck }))
	return out
}
