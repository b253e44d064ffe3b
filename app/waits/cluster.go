package waits

import (
	"fmt"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/nodesync"
)

// settled is for how long a receiver may leave an event untaken before that is a wait: one that
// is well takes it within moments.
const settled = 10 * time.Second

// cluster lists what the cluster as a whole waits for.
func (j judge) cluster(l *list) {
	j.leadership(l)
	j.doors(l)
	doubted(j, l)
	j.upgrade(l)
	if r := j.View.GossipRotation(); r.Stage != membership.GossipSettled {
		missing := j.View.GossipMissing()
		what := fmt.Sprintf("step %v", r.Stage)
		if len(missing) > 0 {
			what += ", not confirmed by " + strings.Join(missing, ", ")
		}
		w := j.wait("gossip/rotation", "the rotation of the gossip key", "", what)
		w.Since = j.clock(r.Since)
		j.limit(&w, r.Since.Add(membership.GossipStepTimeout), "")
		l.add(w, "")
	}
}

// doubted lists the lists of Ironic that are not believed.
func doubted(j judge, l *list) {
	if s, ok := j.View.SyncSuspicion(); ok {
		w := j.wait("nodes/suspected", "the list of Ironic's nodes", "", s.Reason)
		w.Since = j.clock(s.Since)
		switch {
		case s.Confirmed:
			w.Then = "it is confirmed: the leader deletes their records (inspection.clean_up_period)"
		case s.Digest == "":
			w.Then = "no time limit: nothing is deleted before Ironic lists its nodes"
		default:
			j.limit(&w, s.Since.Add(nodesync.SuspectFor), "")
		}
		l.add(w, "")
	}
	if s, ok := j.View.PortSuspicion(); ok {
		w := j.wait("ports/suspected", "the list of Ironic's ports", "", s.Reason)
		w.Since = j.clock(s.Since)
		if s.Confirmed {
			w.Then = "it is confirmed: their MACs leave the blacklist (firewall.sync_period)"
		} else {
			j.limit(&w, s.Since.Add(nodesync.SuspectFor), "")
		}
		l.add(w, "")
	}
}

func (j judge) leadership(l *list) {
	if j.Leader == "" {
		q := j.Seen.Quorum
		what := fmt.Sprintf("%d of %d answer, %d are needed", q.Live, q.Voters, q.Need)
		var silent []string
		for _, p := range j.Seen.Peers {
			if p.Voter && !p.Live {
				silent = append(silent, p.Name)
			}
		}
		if len(silent) > 0 {
			what += "; silent: " + strings.Join(silent, ", ")
		}
		w := j.wait("leadership/none", "the cluster", "", what)
		if j.Seen.StaleMS > 0 {
			w.Since = api.TimeText(j.asOf)
		}
		l.add(w, "")
		return
	}
	if lead := j.View.Leadership(); lead.Peer != j.Leader {
		l.add(j.wait("leadership/beginning", "the cluster", j.name(j.Leader), j.name(j.Leader)), "")
	}
}

// doors lists PXE service and floating IP, where they are closed under a leader.
func (j judge) doors(l *list) {
	if j.Leader == "" {
		return // leadership/none is the reason
	}
	if s := j.Seen.PXE; s.Guarded && len(s.OpenOn) == 0 {
		l.add(j.door("pxe/closed", s.Why, j.View.PassDoor()), "")
	}
	if s := j.Seen.FloatingIP; s != nil && s.Holder == "" {
		l.add(j.door("address/free", s.Why, j.View.AddressDoor()), "")
	}
	if _, listed := j.View.Pull(); j.Seen.PXE.Guarded && !listed {
		l.add(j.wait("ports/unlisted", "the cluster", "", ""), "")
	}
}

// door is a wait for a door that no host has open.
func (j judge) door(kind, why string, d doors.Door) api.Wait {
	w := j.wait(kind, "the cluster", "", why)
	lead := j.View.Leadership()
	if d.Shut() || d.OpenBy == lead.Token || lead.Peer != j.Leader || j.View.AwaitedFormers() != "" {
		w.Then = noLimit
		return w
	}
	from := lead.At
	if d.Unknown {
		from = max(from, d.Since)
	}
	j.limit(&w, from.Add(d.Wait), "")
	return w
}

func (j judge) upgrade(l *list) {
	u := j.Seen.Upgrade
	if u == nil {
		return
	}
	what := "all hosts run it; 'trivet upgrade finalize' ends it"
	if len(u.WaitsFor) > 0 {
		what = "trivet is to be upgraded and started on " + strings.Join(u.WaitsFor, ", ")
	}
	w := j.wait("upgrade/open", fmt.Sprintf("log version %d", u.Newest), "", what)
	w.Since, w.Then = u.Since, "no time limit: it ends when an operator finalizes it"
	all, err := time.Parse(time.RFC3339, u.Since)
	if after := j.Config.Raft.FinalizeAfter; after > 0 && err == nil {
		w.Until, w.Then = api.TimeText(all.Add(after)), j.kinds["upgrade/open"].Then
	}
	l.add(w, "")
}

// receivers lists receivers to which a delivery is on its way for long.
func (j judge) receivers(l *list) {
	for _, r := range j.Config.Events.List() {
		p, known := j.View.Delivered(r.Name)
		if !known || p.Until.IsZero() {
			continue
		}
		var oldest time.Time // of the events that it has not taken
		for e := range j.View.Events().After(p.Taken) {
			oldest = time.UnixMilli(e.Decode().Millis)
			break
		}
		if oldest.IsZero() || j.Wall.Sub(oldest) < settled {
			continue
		}
		w := j.wait("receiver/behind", "receiver "+r.Name, r.Name, "")
		w.Since = api.TimeText(oldest)
		l.add(w, "")
	}
}

// members lists what members wait for, and what waits for them.
func (j judge) members(l *list) {
	for _, p := range j.Seen.Peers {
		if joins := !p.Voter && !p.Observer && p.NeverHeard; !p.Live && !p.Self && !joins {
			l.add(j.silent(p), "")
		}
	}
	servers := make(map[string]int)
	for i, srv := range j.Servers {
		servers[srv.ID] = i
		if _, member := j.View.Member(srv.ID); !member && j.View.ClusterID() != "" {
			l.add(j.wait("member/leaving", "peer "+srv.ID, srv.ID, ""), "")
		}
	}
	for _, m := range j.View.Members() {
		at, known := servers[m.ID]
		j.member(l, m, at, known)
	}
	for _, s := range j.View.Sessions() {
		if _, member := j.View.Member(s.Peer); !member {
			l.add(j.session(s, j.wait("member/removed", "peer "+s.Peer, s.Peer, "")), "")
		}
	}
	j.formers(l)
}

// silent is a wait for a peer that is not heard.
func (j judge) silent(p api.Peer) api.Wait {
	w := j.wait("member/silent", "the cluster", p.Name, p.Name)
	w.Since = p.SilentSince
	if s, ok := j.View.SessionOf(p.ID); ok {
		return j.session(s, w)
	}
	w.Then = "no time limit: it has no session, so that other workers have what it was at"
	return w
}

// session limits a wait by the end of a session.
func (j judge) session(s membership.Session, w api.Wait) api.Wait {
	j.limit(&w, s.Expires, "")
	return w
}

// member lists what one member waits for. at is its place among the servers of the log.
func (j judge) member(l *list, m membership.Member, at int, known bool) {
	flags := j.View.MemberFlags(m.ID)
	if flags.Maintenance {
		w := j.wait("maintenance", "peer "+m.Name, m.Name, "")
		w.Since = millis(flags.MaintenanceWall)
		l.add(w, "")
	}
	change := ""
	switch {
	case known && j.Servers[at].Address != cluster.ServerAddress(m.ID, m.Address):
		change = m.Name + " is at " + m.Address
	case known && flags.Observer && j.Servers[at].Voter:
		change = m.Name + " has no vote any more"
	case !known || !flags.Observer && !j.Servers[at].Voter:
		w := j.wait("member/joining", "peer "+m.Name, m.Name, j.joins(m, known))
		w.Since = millis(m.JoinedWall)
		l.add(w, "")
		return
	default:
		return
	}
	l.add(j.wait("member/changing", "peer "+m.Name, m.Name, change), "")
}

// joins says how far a joiner is; known: it is among the servers of the log.
func (j judge) joins(m membership.Member, known bool) string {
	s, ok := j.View.SessionOf(m.ID)
	switch {
	case j.Leader == "":
		return "only a leader gives it a vote"
	case !known:
		return "the leader adds it to the configuration of the log"
	case !ok:
		return "it has no session yet: is trivet started there?"
	case s.Behind > 0:
		return fmt.Sprintf("it had %d entries to apply at its last renewal", s.Behind)
	}
	return ""
}

// formers lists the members of before a founding that are waited for.
func (j judge) formers(l *list) {
	for _, f := range j.View.FormerMembers() {
		kind, name := "former/returning", f.Name
		switch {
		case !f.Heard:
			kind = "former/unheard"
		case f.Became == "":
			kind = "former/absent"
		}
		l.add(j.wait(kind, "former member "+f.Name, name, ""), "")
	}
}
