package fsm

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// viewText and (*model).text say the same in the same words.
func viewText(v View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "lead %v\n", v.Leadership().Token)
	for _, m := range v.Members() {
		fmt.Fprintf(&b, "member %s %d at %s, %s\n", m.ID, m.Version, m.Address, flagsText(v.MemberFlags(m.ID)))
	}
	for _, s := range v.Sessions() {
		fmt.Fprintf(&b, "session %v %s %v %v\n", s.ID, s.Peer, s.Expires, s.Answered)
	}
	for _, s := range v.Settings() {
		fmt.Fprintf(&b, "setting %s %s\n", s.Key, s.Value)
	}
	for _, l := range v.Leases() {
		fmt.Fprintf(&b, "lease %s %s %v %v\n", l.Name, l.Holder, l.Token, l.Expires)
	}
	for _, o := range v.data.requests.byID.All() {
		fmt.Fprintf(&b, "result %v %v %s %v\n", o.ID, o.Session, o.Client, o.Result.Code)
	}
	for _, r := range slices.SortedFunc(v.Records(),
		func(a, b introspection.Record) int { return strings.Compare(a.Node, b.Node) }) {
		b.WriteString(recordText(r))
	}
	for r := range v.Queue() {
		fmt.Fprintf(&b, "request %v %s %v %d %v\n", r.Sequence, r.Node, r.Event, r.Attempts, r.Claim)
	}
	for _, d := range v.data.blobs.Table().All() {
		fmt.Fprintf(&b, "document %v of %v\n", d.Hash, v.NodesByDelivery(d.Hash))
	}
	for r := range v.Ready() {
		fmt.Fprintf(&b, "ready %v\n", r.Sequence)
	}
	for r := range v.EndedBefore(v.Now() + 1) {
		fmt.Fprintf(&b, "ended %v %s\n", r.Finished, r.Node)
	}
	fmt.Fprintf(&b, "claimable %d, next turn %v\n", v.Claimable(), nextTurn(v))
	for rule := range v.Rules() {
		fmt.Fprintf(&b, "rule %s %s\n", rule.UUID, rule.Body)
	}
	b.WriteString(relaysText(slices.Collect(v.Relays())))
	b.WriteString(viewGateText(v))
	b.WriteString(viewFailoverText(v))
	b.WriteString(viewKeysText(v))
	b.WriteString(zonesText(v.ZoneChoices()))
	return b.String()
}

func recordText(r introspection.Record) string {
	return fmt.Sprintf(
		"node %s %v failed %v, %d–%d, until %v, ended %v, %v %v %v, delivered %v by %v, answered %d, MACs %v\n", r.Node,
		r.State, r.Error != "",
		r.StartedMillis, r.FinishedMillis, r.Deadline, r.Finished, r.Unprocessed, r.Processed, r.Earlier,
		r.Delivered.Document, r.Delivered.Request, r.Delivered.Answer.Status, r.Attributes.MACs)
}

func (m *model) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lead %v\n", m.lead)
	for _, id := range slices.Sorted(maps.Keys(m.members)) {
		fmt.Fprintf(&b, "member %s %d at %s, %s\n", id, m.members[id], m.flags.address[id], m.flags.text(id))
	}
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		s := m.sessions[id]
		fmt.Fprintf(&b, "session %v %s %v %v\n", id, s.peer, s.expires, s.answered)
	}
	for _, key := range slices.Sorted(maps.Keys(m.settings)) {
		fmt.Fprintf(&b, "setting %s %s\n", key, m.settings[key])
	}
	for _, name := range slices.Sorted(maps.Keys(m.leases)) {
		l := m.leases[name]
		fmt.Fprintf(&b, "lease %s %s %v %v\n", name, l.Holder, l.Token, l.Expires)
	}
	for _, id := range m.requestIDs() {
		r := m.results[id]
		fmt.Fprintf(&b, "result %v %v %s %v\n", id, r.session, r.client, r.code)
	}
	for _, node := range slices.Sorted(maps.Keys(m.nodes)) {
		b.WriteString(recordText(*m.nodes[node]))
	}
	for _, r := range m.queue {
		fmt.Fprintf(&b, "request %v %s %v %d %v\n", r.seq, r.node, r.event, r.attempts, r.claim)
	}
	for _, h := range slices.SortedFunc(maps.Keys(m.documents()),
		func(a, b blobs.Hash) int { return bytes.Compare(a[:], b[:]) }) {
		fmt.Fprintf(&b, "document %v of %v\n", h, m.deliveredTo(h))
	}
	for _, r := range m.ready() {
		fmt.Fprintf(&b, "ready %v\n", r.seq)
	}
	for _, n := range m.ended() {
		fmt.Fprintf(&b, "ended %v %s\n", n.Finished, n.Node)
	}
	fmt.Fprintf(&b, "claimable %d, next turn %v\n", len(m.ready()), m.turn)
	for _, rule := range m.rules {
		fmt.Fprintf(&b, "rule %s %s\n", rule.UUID, rule.Body)
	}
	b.WriteString(relaysText(m.kept()))
	b.WriteString(m.gateText())
	b.WriteString(m.failoverText())
	b.WriteString(m.keysText())
	b.WriteString(zonesText(m.zoned.all()))
	return b.String()
}

func viewGateText(v View) string {
	var b strings.Builder
	fmt.Fprintf(&b, "leads since %v\n%s%s", v.Leadership().At, doorText(v.PassDoor()), doorText(v.AddressDoor()))
	for p := range v.Ports() {
		fmt.Fprintf(&b, "port %+v\n", p)
	}
	pull, _ := v.Pull()
	fmt.Fprintf(&b, "pull %+v\n", pull)
	for mac := range v.DeniedMACs() {
		fmt.Fprintf(&b, "denied %s by %s\n", mac, v.PortsByMAC(mac)[0].ID)
	}
	for mac, node := range v.AllowedMACs() {
		fmt.Fprintf(&b, "allowed %s as %s\n", mac, node)
	}
	fmt.Fprintf(&b, "denied %d, allowed %d, introspecting %v\n", v.DeniedCount(), v.AllowedCount(), v.Introspecting())
	b.WriteString(viewFormerText(v))
	return b.String()
}

func doorText(d doors.Door) string {
	var since Time
	if d.Unknown {
		since = d.Since
	}
	return fmt.Sprintf(
		"door open by %v of %q, waits %v, at %q, shut by %v, unknown %v since %v, recorded at %d in term %d\n", d.OpenBy,
		d.Peer, Time(d.Wait), d.Address, d.ClosedBy, d.Unknown, since, d.Index, d.Term)
}
