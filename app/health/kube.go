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
	Settings   failover.Settings // those of the start
	Clusters   []failover.Cluster
	Controller *failover.Controller
	Prober     *failover.Prober
	Figures    *KubeFigures
}

// warnings are what is wrong with failover, as this peer knows.
func (k *Kube) warnings(v fsm.View) []api.Warning {
	if k == nil {
		return kubeHealth{open: v.Remediations(), idle: failover.Settings{}.Idle()}.warnings()
	}
	h := kubeHealth{mode: k.Settings.Mode, idle: k.Settings.Idle(), pauses: v.FailoverPauses(), open: v.Remediations(),
		faults: k.Prober.Faults(), silent: make(map[string]string)}
	for _, c := range k.Clusters {
		h.named = append(h.named, c.Name())
		if w, leads := k.Controller.Watched(c.Name()); leads && !w.API.Answers {
			h.silent[c.Name()] = cmp.Or(w.API.Why, "it was not asked yet")
		}
		h.held = append(h.held, k.Controller.Verdicts(c.Name())...)
	}
	if h.mode == failover.ModeSafe {
		h.unplaced = unplaced(k.Controller.Places())
	}
	return h.warnings()
}

// unplaced names the peers of which it is not known that they run elsewhere, if none was
// found on a kube node.
func unplaced(places []failover.Place) (names []string) {
	for _, p := range places {
		switch {
		case p.Node != "":
			return nil
		case p.Unknown:
			names = append(names, p.Peer)
		}
	}
	return names
}

// kubeHealth is what the warnings of failover are made of.
type kubeHealth struct {
	mode   failover.Mode
	idle   string   // why nothing is done about kube nodes, "" if something is
	named  []string // clusters
	pauses []kubestate.Pause
	open   []kubestate.Remediation
	faults map[string]string // by cluster: why this peer has no opinion
	silent map[string]string // by cluster: why its API server does not answer the leader
	held   []failover.Verdict
	// unplaced are peers that may run on kube nodes, though none was found there.
	unplaced []string
}

func (h kubeHealth) warnings() []api.Warning {
	var out warningList
	if h.mode == failover.ModeNooBaa {
		out.add("failover_unfenced", "set failover.mode to safe, and failover.fence_file",
			"failover.mode is noobaa: pods are deleted while their machine may still run them; one pod may run twice")
	}
	for _, r := range h.open {
		if r.State == kubestate.RemStuck {
			out.add("failover_stuck", "see 'trivet failover show "+r.Cluster+"/"+r.Node+"'; then 'trivet failover release'",
				"the remediation of kube node %s/%s is stuck: %s", r.Cluster, r.Node, r.Steps[len(r.Steps)-1].Reason)
		}
	}
	// Remediations about which nothing more is done: their marks stay on their Nodes.
	var nodes []string
	why := cmp.Or(h.idle, "failover.kubeconfigs does not name the cluster")
	for _, r := range h.open {
		if h.idle != "" || !slices.Contains(h.named, r.Cluster) {
			nodes = append(nodes, r.Cluster+"/"+r.Node)
		}
	}
	if len(nodes) > 0 {
		out.add("failover_left_open",
			"write failover.mode: safe and its cluster until each has ended, or see docs/failover.md#left-open",
			"%d remediations are open and not carried out, and failover's taints stay on the Nodes until their machines are back, or for good where no cluster is named: %s (%s)",
			len(nodes), joinNames(nodes[:min(len(nodes), maxNamedNodes)]), why)
	}
	out = append(out, h.heldWarnings()...)
	for _, pause := range h.pauses {
		resume := "trivet failover resume"
		if pause.Cluster != "" {
			resume += " --cluster " + pause.Cluster
		}
		out.add("failover_paused", "'"+resume+"', if the reason for the pause is over",
			"failover is paused in %s by %s", cmp.Or(pause.Cluster, "all clusters"), cmp.Or(pause.By, "an operator"))
	}
	for _, c := range slices.Sorted(maps.Keys(h.faults)) {
		out.add("failover_no_vote", "see whether this host reaches the kube nodes' port 10250",
			"this peer has no opinion of the kubelets of %s: %s", c, h.faults[c])
	}
	for _, c := range slices.Sorted(maps.Keys(h.silent)) {
		out.add("failover_api_silent", "see whether it answers from this host; no kube node is held for dead meanwhile",
			"the API server of %s does not answer: %s", c, h.silent[c])
	}
	if len(h.unplaced) > 0 {
		out.add("failover_unplaced_peers",
			"upgrade the peers; if one runs on a kube node, see that 'trivet failover list' shows it there: docs/failover.md#peers-on-kube-nodes",
			"no peer was found on a kube node, and of %s it is not known that it runs elsewhere: a living peer there would be switched off with its machine",
			joinNames(h.unplaced))
	}
	return out
}

// heldWarnings warns of kube nodes that are held for dead and left alone, of each cluster once: a storm
// has many.
func (h kubeHealth) heldWarnings() warningList {
	var out warningList
	held := make(map[string][]failover.Verdict)
	for _, d := range h.held {
		if d.Held() {
			held[d.Node.Cluster] = append(held[d.Node.Cluster], d)
		}
	}
	for _, c := range slices.Sorted(maps.Keys(held)) {
		first, more := held[c][0], ""
		if n := len(held[c]) - 1; n > 0 {
			more = fmt.Sprintf("; %d more of %s", n, c)
		}
		out.add("failover_held", "see 'trivet failover show "+c+"/"+first.Node.Name+"' for all that forbids it",
			"kube node %s/%s is held for dead, and its work is not moved: %s%s", c, first.Node.Name, first.Why[0], more)
	}
	return out
}

// maxNamedNodes is how many kube nodes a warning names.
const maxNamedNodes = 5

// readyzLine is failover's line of readyz, in a few words. It never makes a peer unready:
// requests are served in any case.
func (k *Kube) readyzLine() string {
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
	out := &api.FailoverCounts{Mode: string(k.Settings.Mode), Paused: len(v.FailoverPauses()) > 0}
	open := v.Remediations()
	out.Open = len(open)
	out.Stuck = len(slices.DeleteFunc(open, func(r kubestate.Remediation) bool { return r.State != kubestate.RemStuck }))
	return out
}
