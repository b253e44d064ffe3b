package fsm

import "github.com/trivet-ha/trivet/fsm/fencing"

func checkKubeNodes(d *data, p *problems) {
	p.want(d.failover.nodes.size() <= MaxKubeNodes, "%d kube nodes", d.failover.nodes.size())
	for key, n := range d.failover.nodes.all() {
		p.want(string(key) == string(kubeKey(n.Cluster, n.UID)), "kube node %q is filed under %q", n.Name, key)
		if err := validKubeCluster(n.Cluster); err != nil {
			p.addf("%v", err)
		}
		if err := n.Validate(); err != nil {
			p.addf("%v", err)
		}
		p.want(0 <= n.Changed && n.Changed <= d.position.Now && n.ChangedMillis >= 0, "kube node %q changed at %v, now is %v", n.Name, n.Changed, d.position.Now)
	}
}

func checkBallots(d *data, p *problems) {
	all := d.failover
	p.want(all.votesOf.size() == all.votes.size(), "%d votes, %d by their sessions", all.votes.size(), all.votesOf.size())
	for key, b := range all.votes.all() {
		p.want(string(key) == string(b.key()), "the vote of session %v on kube node %q is filed under %q", b.Session, b.UID, key)
		p.want(all.votesOf.has(b.sessionKey()), "the vote on kube node %q is missing from session %v", b.UID, b.Session)
		p.want(d.peers.sessions.has(tokenKey(b.Session)), "the vote on kube node %q outlives session %v", b.UID, b.Session)
		p.want(all.nodes.has(kubeKey(b.Cluster, b.UID)), "session %v votes on kube node %q, which is not known", b.Session, b.UID)
		p.want(0 <= b.Since && b.Since <= d.position.Now && b.Millis >= 0, "session %v votes at %v, now is %v", b.Session, b.Since, d.position.Now)
	}
}

func checkRemediations(d *data, p *problems) {
	all := d.failover
	open := 0
	for key, r := range all.remediations.all() {
		p.want(string(key) == string(tokenKey(r.Intent)) && !r.Intent.IsZero() && r.Intent <= d.granted(), "remediation %v is filed under %x", r.Intent, key)
		checkRemediation(d, p, r)
		checkSteps(d, p, r)
		if !r.State.Ended() {
			open++
		}
	}
	size := all.remediations.size()
	p.want(size <= MaxRemediations, "%d remediations", size)
	p.want(all.open.size() == open && all.openName.size() == open, "%d remediations are open, %d by their UIDs and %d by their names", open, all.open.size(), all.openName.size())
	p.want(all.ended.size() == size-open, "%d remediations have ended, %d in the index", size-open, all.ended.size())
}

func checkRemediation(d *data, p *problems, r Remediation) {
	now := d.position.Now
	c := BeginRemediation{Cluster: r.Cluster, Node: r.Node, UID: r.UID, BootID: r.BootID, SystemUUID: r.SystemUUID, Reason: "any"}
	if err := c.Validate(); err != nil {
		p.addf("remediation %v: %v", r.Intent, err)
	}
	p.want(r.State.known(), "remediation %v is in state %v", r.Intent, r.State)
	p.want(0 <= r.Began && r.Began <= r.Since && r.Since <= now, "remediation %v, begun at %v, is %v since %v, now is %v", r.Intent, r.Began, r.State, r.Since, now)
	p.want(r.Attempts >= 0 && (r.Attempts > 0) == (r.Device != "") && len(r.Device) <= maxDevice, "remediation %v has %d attempts, the last by %q", r.Intent, r.Attempts, r.Device)
	p.want(!r.WasOff || r.Attempts > 0, "remediation %v: the machine was off and nobody announced it", r.Intent)
	p.want(r.WasOff || r.State < RemOff || r.State > RemDetached, "remediation %v is %v and the machine was never off", r.Intent, r.State)
	byUID, _ := d.failover.open.get(kubeKey(r.Cluster, r.UID))
	byName, _ := d.failover.openName.get(kubeKey(r.Cluster, r.Node))
	if !r.State.Ended() {
		p.want(byUID == r.Intent && byName == r.Intent, "remediation %v of kube node %s is open, and so are %v and %v", r.Intent, r.Node, byUID, byName)
		p.want(r.Expires == 0, "remediation %v is %v and kept until %v", r.Intent, r.State, r.Expires)
		return
	}
	p.want(byUID != r.Intent && byName != r.Intent && d.failover.ended.has(r.endedKey()), "remediation %v is %v and still open", r.Intent, r.State)
	p.want(r.Expires <= now.Add(RemediationKeep), "remediation %v is kept until %v, now is %v", r.Intent, r.Expires, now)
}

// checkSteps verifies that a remediation came where it is by the table.
func checkSteps(d *data, p *problems, r Remediation) {
	n := len(r.Steps)
	if n == 0 || n > MaxRemediationSteps {
		p.addf("remediation %v has %d steps", r.Intent, n)
		return
	}
	first, last := r.Steps[0], r.Steps[n-1]
	p.want(first.State == RemIntent && first.Token == r.Intent && first.At == r.Began, "remediation %v begins with %+v", r.Intent, first)
	p.want(last.State == r.State && last.At >= r.Since, "remediation %v is %v since %v, its last step is %+v", r.Intent, r.State, r.Since, last)
	var token fencing.Token
	at := r.Began
	for i, s := range r.Steps {
		if err := validStep(s.Peer, s.Reason, s.Millis); err != nil {
			p.addf("step %d of remediation %v: %v", i, r.Intent, err)
		}
		p.want(s.Token > token && s.Token <= d.granted() && at <= s.At && s.At <= d.position.Now, "step %d of remediation %v is out of order: %+v", i, r.Intent, s)
		p.want(s.Device == "" || s.State == RemFencing && len(s.Device) <= maxDevice, "step %d of remediation %v is %v and announces a power-off", i, r.Intent, s.State)
		cut := n == MaxRemediationSteps && i == firstRemediationSteps // what was between may be forgotten
		p.want(i == 0 || cut || RemediationMay(r.Steps[i-1].State, s.State), "step %d of remediation %v: %v after %v", i, r.Intent, s.State, r.Steps[max(i, 1)-1].State)
		token, at = s.Token, s.At
	}
}

func checkPauses(d *data, p *problems) {
	now := d.position.Now
	pauses, holds := d.failover.pauses, d.failover.holds
	p.want(pauses.size() <= MaxFailoverClusters+1 && holds.size() <= MaxFailoverClusters, "%d pauses, %d holds", pauses.size(), holds.size())
	for key, f := range pauses.all() {
		c := PauseFailover{Cluster: f.Cluster, Paused: true, By: f.By, Reason: f.Reason, Millis: f.Millis}
		if err := c.Validate(); err != nil {
			p.addf("pause of %q: %v", f.Cluster, err)
		}
		p.want(string(key) == f.Cluster, "the pause of %q is filed under %q", f.Cluster, key)
		p.want(0 <= f.Since && f.Since <= now && 0 <= f.Until && f.Until <= now.Add(MaxFailoverPause), "the pause of %q since %v lasts until %v, now is %v", f.Cluster, f.Since, f.Until, now)
	}
	for key, h := range holds.all() {
		c := HoldFailover{Cluster: h.Cluster, For: 1, Reason: h.Reason}
		if err := c.Validate(); err != nil {
			p.addf("hold of %q: %v", h.Cluster, err)
		}
		p.want(string(key) == h.Cluster, "the hold of %q is filed under %q", h.Cluster, key)
		p.want(0 <= h.Since && h.Since <= now && h.Until <= now.Add(MaxFailoverHold), "the hold of %q since %v lasts until %v, now is %v", h.Cluster, h.Since, h.Until, now)
	}
}
