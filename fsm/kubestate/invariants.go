package kubestate

import (
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

func checkKubeNodes(t Txn, p *valid.Problems) {
	p.Want(t.nodes.Size() <= MaxNodes, "%d kube nodes", t.nodes.Size())
	for key, n := range t.nodes.All() {
		p.Want(string(key) == string(kubeKey(n.Cluster, n.UID)), "kube node %q is filed under %q", n.Name, key)
		p.Invalid(validKubeCluster(n.Cluster), "")
		p.Invalid(n.Validate(), "")
		p.Want(0 <= n.Changed && n.Changed <= t.Position.Now && n.ChangedMillis >= 0, "kube node %q changed at %v, now is %v",
			n.Name, n.Changed, t.Position.Now)
	}
}

func checkBallots(t Txn, p *valid.Problems) {
	all := t.Tables
	p.Want(all.votesOf.Size() == all.votes.Size(), "%d votes, %d by their sessions", all.votes.Size(), all.votesOf.Size())
	for key, b := range all.votes.All() {
		p.Want(string(key) == string(b.key()), "the vote of session %v on kube node %q is filed under %q", b.Session, b.UID,
			key)
		p.Want(all.votesOf.Has(b.sessionKey()), "the vote on kube node %q is missing from session %v", b.UID, b.Session)
		_, live := t.Peers.PeerOf(b.Session)
		p.Want(live, "the vote on kube node %q outlives session %v", b.UID, b.Session)
		p.Want(all.nodes.Has(kubeKey(b.Cluster, b.UID)), "session %v votes on kube node %q, which is not known", b.Session,
			b.UID)
		p.Want(0 <= b.Since && b.Since <= t.Position.Now && b.Millis >= 0, "session %v votes at %v, now is %v", b.Session,
			b.Since, t.Position.Now)
	}
}

func checkRemediations(t Txn, p *valid.Problems) {
	all := t.Tables
	open := 0
	for key, r := range all.remediations.All() {
		p.Want(string(key) == string(table.TokenKey(r.Intent)) && !r.Intent.IsZero() && r.Intent <= t.Granted(),
			"remediation %v is filed under %x", r.Intent, key)
		checkRemediation(t, p, r)
		checkSteps(t, p, r)
		if !r.State.Ended() {
			open++
		}
	}
	size := all.remediations.Size()
	p.Want(size <= MaxRemediations, "%d remediations", size)
	p.Want(all.open.Size() == open && all.openName.Size() == open,
		"%d remediations are open, %d by their UIDs and %d by their names", open, all.open.Size(), all.openName.Size())
	p.Want(all.ended.Size() == size-open, "%d remediations have ended, %d in the index", size-open, all.ended.Size())
}

func checkRemediation(t Txn, p *valid.Problems, r Remediation) {
	now := t.Position.Now
	c := BeginRemediation{Cluster: r.Cluster, Node: r.Node, UID: r.UID, BootID: r.BootID, SystemUUID: r.SystemUUID,
		Reason: "any"}
	p.Invalid(c.Validate(), "remediation %v: ", r.Intent)
	p.Want(r.State.known(), "remediation %v is in state %v", r.Intent, r.State)
	p.Want(0 <= r.Began && r.Began <= r.Since && r.Since <= now, "remediation %v, begun at %v, is %v since %v, now is %v",
		r.Intent, r.Began, r.State, r.Since, now)
	p.Want(r.Attempts >= 0 && (r.Attempts > 0) == (r.Device != "") && len(r.Device) <= maxDevice,
		"remediation %v has %d attempts, the last by %q", r.Intent, r.Attempts, r.Device)
	p.Want(!r.WasOff || r.Attempts > 0, "remediation %v: the machine was off and no peer announced it", r.Intent)
	p.Want(r.WasOff || r.State < RemOff || r.State > RemDetached, "remediation %v is %v and the machine was never off",
		r.Intent, r.State)
	byUID, _ := t.open.Get(kubeKey(r.Cluster, r.UID))
	byName, _ := t.openName.Get(kubeKey(r.Cluster, r.Node))
	if !r.State.Ended() {
		p.Want(byUID == r.Intent && byName == r.Intent, "remediation %v of kube node %s is open, and so are %v and %v",
			r.Intent, r.Node, byUID, byName)
		p.Want(r.Expires == 0, "remediation %v is %v and kept until %v", r.Intent, r.State, r.Expires)
		return
	}
	p.Want(byUID != r.Intent && byName != r.Intent && t.ended.Has(r.endedKey()), "remediation %v is %v and still open",
		r.Intent, r.State)
	p.Want(r.Expires <= now.Add(Keep), "remediation %v is kept until %v, now is %v", r.Intent, r.Expires, now)
}

// checkSteps verifies that a remediation came where it is by the table.
func checkSteps(t Txn, p *valid.Problems, r Remediation) {
	n := len(r.Steps)
	if n == 0 || n > MaxSteps {
		p.Addf("remediation %v has %d steps", r.Intent, n)
		return
	}
	first, last := r.Steps[0], r.Steps[n-1]
	p.Want(first.State == RemIntent && first.Token == r.Intent && first.At == r.Began, "remediation %v begins with %+v",
		r.Intent, first)
	p.Want(last.State == r.State && last.At >= r.Since, "remediation %v is %v since %v, its last step is %+v", r.Intent,
		r.State, r.Since, last)
	var token fencing.Token
	at := r.Began
	for i, s := range r.Steps {
		p.Invalid(validStep(s.Peer, s.Reason, s.Millis), "step %d of remediation %v: ", i, r.Intent)
		p.Want(s.Token > token && s.Token <= t.Granted() && at <= s.At && s.At <= t.Position.Now,
			"step %d of remediation %v is out of order: %+v", i, r.Intent, s)
		p.Want(s.Device == "" || s.State == RemFencing && len(s.Device) <= maxDevice,
			"step %d of remediation %v is %v and announces a power-off", i, r.Intent, s.State)
		cut := n == MaxSteps && i == firstRemediationSteps // what was between may be forgotten
		p.Want(i == 0 || cut || May(r.Steps[i-1].State, s.State), "step %d of remediation %v: %v after %v", i, r.Intent,
			s.State, r.Steps[max(i, 1)-1].State)
		token, at = s.Token, s.At
	}
}

func checkPauses(t Txn, p *valid.Problems) {
	now := t.Position.Now
	pauses, holds := t.pauses, t.holds
	p.Want(pauses.Size() <= MaxClusters+1 && holds.Size() <= MaxClusters, "%d pauses, %d holds", pauses.Size(),
		holds.Size())
	for key, f := range pauses.All() {
		c := PauseFailover{Cluster: f.Cluster, Paused: true, By: f.By, Reason: f.Reason, Millis: f.Millis}
		p.Invalid(c.Validate(), "pause of %q: ", f.Cluster)
		p.Want(string(key) == f.Cluster, "the pause of %q is filed under %q", f.Cluster, key)
		p.Want(0 <= f.Since && f.Since <= now && 0 <= f.Until && f.Until <= now.Add(MaxPause),
			"the pause of %q since %v lasts until %v, now is %v", f.Cluster, f.Since, f.Until, now)
	}
	for key, h := range holds.All() {
		c := HoldFailover{Cluster: h.Cluster, For: 1, Reason: h.Reason}
		p.Invalid(c.Validate(), "hold of %q: ", h.Cluster)
		p.Want(string(key) == h.Cluster, "the hold of %q is filed under %q", h.Cluster, key)
		p.Want(0 <= h.Since && h.Since <= now && h.Until <= now.Add(MaxHold),
			"the hold of %q since %v lasts until %v, now is %v", h.Cluster, h.Since, h.Until, now)
	}
}
