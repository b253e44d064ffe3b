package fsm

import (
	"fmt"
	"strconv"
)

// Actions of the events that are derived from commands. They are part of the API.
const (
	ActionAcquired = "acquired" // leadership

	ActionOpened = "opened" // the PXE service
	ActionClosed = "closed"
	ActionTaken  = "taken"  // the floating IP
	ActionLapsed = "lapsed" // either: its holder was lost and its time ran out

	ActionJoined    = "joined" // a member
	ActionRemoved   = "removed"
	ActionConnected = "connected"
	ActionStopped   = "stopped"
	ActionLost      = "lost"
	ActionMoved     = "moved"

	ActionMaintenanceBegan = "maintenance-began"
	ActionMaintenanceEnded = "maintenance-ended"
	ActionDemoted          = "demoted"  // to an observer
	ActionPromoted         = "promoted" // to a voter

	ActionGranted   = "granted" // a lease
	ActionTakenOver = "taken-over"
	ActionReleased  = "released" // also the floating IP
	ActionExpired   = "expired"

	ActionCreated    = "created" // a rule
	ActionDeleted    = "deleted" // also a node's record
	ActionAllDeleted = "all-deleted"
	ActionImported   = "imported" // a node's record
)

// record appends an event to the ring. Nothing is recorded in a cluster that has an
// older member, nor where no entry is applied: when a founding begins a new
// history.
func (t *txn) record(e ClusterEvent) {
	if !t.peers.version2() || t.token.IsZero() {
		return
	}
	e.ID = EventID{Incarnation: t.cluster.Incarnation, Index: t.position.Index}
	if last, ok := t.events.last(); ok && last.ID.Incarnation == e.ID.Incarnation && last.ID.Index == e.ID.Index {
		e.ID.Seq = last.ID.Seq + 1
	}
	if e.Millis == 0 {
		e.Millis = t.header.WallMillis
	}
	t.events.add(storedEvent{ID: e.ID, topic: e.Topic, body: marshal(e)})
}

// nameOf returns the host name of a peer, by its server ID: who reads the event may
// find no member of that ID any more.
func (t *txn) nameOf(id string) string {
	if m, ok := t.peers.members.get([]byte(id)); ok {
		return m.Name
	}
	return id
}

// proposer returns the name of the peer whose session the entry carries, "" if it
// carries none.
func (t *txn) proposer() string {
	if s, ok := t.peers.sessions.get(tokenKey(t.header.Session)); ok {
		return t.nameOf(s.Peer)
	}
	return ""
}

// fields makes the fields of an event from pairs of names and values, without the
// empty ones.
func fields(pairs ...string) map[string]string {
	out := make(map[string]string, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out[pairs[i]] = EventText(pairs[i+1])
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (t *txn) recordLead(before Leadership) {
	previous := ""
	if before.Peer != "" {
		previous = t.nameOf(before.Peer)
	}
	t.record(ClusterEvent{Topic: TopicLeadership, Action: ActionAcquired, Peer: t.nameOf(t.lead.Peer), Fields: fields(
		"previous", previous, "term", strconv.FormatUint(t.lead.Term, 10), "token", t.lead.Token.String())})
}

// recordDoor tells of a door that its peer opened or shut, or whose time ran out.
func (t *txn) recordDoor(topic Topic, action string, d Door) {
	t.record(ClusterEvent{Topic: topic, Action: action, Peer: t.nameOf(d.Peer), Fields: fields("address", d.Address, "token", d.OpenBy.String())})
}

func (t *txn) recordMember(action, id string, pairs ...string) {
	t.record(ClusterEvent{Topic: TopicMember, Action: action, Peer: t.nameOf(id), Fields: fields(pairs...)})
}

// recordStep tells how a node's record changed, what caused it, and which peer did
// it. The text of an error is cut; the record has the whole.
func (t *txn) recordStep(old, r Record, cause Event, peer string) {
	if old.State == r.State && old.Error == r.Error && old.Finished == r.Finished && cause != EventStart && cause != EventReapply {
		return
	}
	from := ""
	if old.State != NodeAbsent {
		from = old.State.String()
	}
	why := ""
	if r.State == NodeError {
		why = r.Error
	}
	t.record(ClusterEvent{Topic: TopicIntrospection, Action: r.State.String(), Peer: peer, Node: r.Node,
		Fields: fields("cause", cause.String(), "from", from, "error", why)})
}

func (t *txn) recordNode(action, node, state, peer string) {
	t.record(ClusterEvent{Topic: TopicIntrospection, Action: action, Peer: peer, Node: node, Fields: fields("state", state)})
}

func (t *txn) recordLease(action string, l Lease) {
	ttl := ""
	if l.TTL > 0 {
		ttl = l.TTL.String()
	}
	t.record(ClusterEvent{Topic: TopicLease, Action: action, Fields: fields("lease", l.Name, "holder", l.Holder, "token", l.Token.String(), "ttl", ttl)})
}

func (t *txn) recordRemediation(r Remediation, s RemediationStep) {
	e := ClusterEvent{Topic: TopicRemediation, Action: s.State.String(), Peer: s.Peer, Millis: s.Millis}
	by := ""
	if s.Operator {
		e.Peer, by = "", s.Peer
	}
	e.Fields = fields("cluster", r.Cluster, "kube_node", r.Node, "intent", r.Intent.String(), "device", s.Device, "reason", s.Reason, "by", by)
	t.record(e)
}

func (t *txn) recordRule(action, id string, count int) {
	total := ""
	if count > 0 {
		total = fmt.Sprint(count)
	}
	t.record(ClusterEvent{Topic: TopicRule, Action: action, Peer: t.proposer(), Fields: fields("rule", id, "count", total)})
}
