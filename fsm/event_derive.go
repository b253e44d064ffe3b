package fsm

import (
	"fmt"
	"strconv"

	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/table"
)

// nameOf returns the host name of a peer, by its server ID: who reads the event may
// find no member of that ID any more.
func (t *txn) nameOf(id string) string {
	if m, ok := t.peers.members.Get([]byte(id)); ok {
		return m.Name
	}
	return id
}

// proposer returns the name of the peer whose session the entry carries, "" if it
// carries none.
func (t *txn) proposer() string {
	if s, ok := t.peers.sessions.Get(table.TokenKey(t.Header.Session)); ok {
		return t.nameOf(s.Peer)
	}
	return ""
}

func (t *txn) recordLead(before Leadership) {
	previous := ""
	if before.Peer != "" {
		previous = t.nameOf(before.Peer)
	}
	t.Record(eventring.Event{Topic: eventring.TopicLeadership, Action: eventring.ActionAcquired, Peer: t.nameOf(t.lead.Peer), Fields: eventring.Fields(
		"previous", previous, "term", strconv.FormatUint(t.lead.Term, 10), "token", t.lead.Token.String())})
}

// recordDoor tells of a door that its peer opened or shut, or whose time ran out.
func (t *txn) recordDoor(topic eventring.Topic, action string, d Door) {
	t.Record(eventring.Event{Topic: topic, Action: action, Peer: t.nameOf(d.Peer), Fields: eventring.Fields("address", d.Address, "token", d.OpenBy.String())})
}

func (t *txn) recordMember(action, id string, pairs ...string) {
	t.Record(eventring.Event{Topic: eventring.TopicMember, Action: action, Peer: t.nameOf(id), Fields: eventring.Fields(pairs...)})
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
	t.Record(eventring.Event{Topic: eventring.TopicIntrospection, Action: r.State.String(), Peer: peer, Node: r.Node,
		Fields: eventring.Fields("cause", cause.String(), "from", from, "error", why)})
}

func (t *txn) recordNode(action, node, state, peer string) {
	t.Record(eventring.Event{Topic: eventring.TopicIntrospection, Action: action, Peer: peer, Node: node, Fields: eventring.Fields("state", state)})
}

func (t *txn) recordRemediation(r Remediation, s RemediationStep) {
	e := eventring.Event{Topic: eventring.TopicRemediation, Action: s.State.String(), Peer: s.Peer, Millis: s.Millis}
	by := ""
	if s.Operator {
		e.Peer, by = "", s.Peer
	}
	e.Fields = eventring.Fields("cluster", r.Cluster, "kube_node", r.Node, "intent", r.Intent.String(), "device", s.Device, "reason", s.Reason, "by", by)
	t.Record(e)
}

func (t *txn) recordRule(action, id string, count int) {
	total := ""
	if count > 0 {
		total = fmt.Sprint(count)
	}
	t.Record(eventring.Event{Topic: eventring.TopicRule, Action: action, Peer: t.proposer(), Fields: eventring.Fields("rule", id, "count", total)})
}
