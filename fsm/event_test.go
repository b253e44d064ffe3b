package fsm

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/ruleset"
)

// events returns all events of a state, decoded.
func events(v View) (out []eventring.Event) {
	for e := range v.Events().After(eventring.ID{}) {
		out = append(out, e.Decode())
	}
	return out
}

// told returns an event in one line for comparison, without its ID and time.
func told(e eventring.Event) string {
	parts := []string{e.Topic.String(), e.Action}
	for _, name := range []string{"peer", "node"} {
		if value := map[string]string{"peer": e.Peer, "node": e.Node}[name]; value != "" {
			parts = append(parts, name+"="+value)
		}
	}
	var fields []string
	for name, value := range e.Fields {
		if name != "token" && name != "intent" {
			fields = append(fields, name+"="+value)
		}
	}
	slices.Sort(fields)
	return strings.Join(append(parts, fields...), " ")
}

// eventCase commits commands and names the events that they make.
type eventCase struct {
	do   func(r *rig)
	want []string
}

// clusterEventCases are about peers and what they hold.
func clusterEventCases() map[string]eventCase {
	return map[string]eventCase{
		"leadership": {func(r *rig) {
			r.must(membership.PutMember{Member: member("b")})
			r.must(Lead{Peer: "a", Boot: "1"})
			r.must(Lead{Peer: "b", Boot: "1"})
		}, []string{
			"member joined peer=host-b address=b.example:7350",
			"leadership acquired peer=host-a term=2",
			"leadership acquired peer=host-b previous=host-a term=2",
		}},
		"doors": {func(r *rig) {
			r.must(membership.PutMember{Member: member("b")})
			r.must(Lead{Peer: "a", Boot: "1"})
			r.asLeader(doors.PassOpen{})
			r.asLeader(doors.PassOpen{}) // the same again is no event
			r.asLeader(doors.AddressTaken{Address: "192.0.2.1"})
			r.asLeader(doors.AddressReleased{})
			r.must(Lead{Peer: "b", Boot: "1"})
			r.asLeader(doors.PassClosed{}) // of one that b never opened
			r.must(Lead{Peer: "b", Boot: "1"})
			r.asLeader(doors.PassOpen{})
			r.asLeader(doors.PassClosed{})
		}, []string{
			"member joined peer=host-b address=b.example:7350",
			"leadership acquired peer=host-a term=2",
			"pxe opened peer=host-a",
			"floating-ip taken peer=host-a address=192.0.2.1",
			"floating-ip released peer=host-a address=192.0.2.1",
			"leadership acquired peer=host-b previous=host-a term=2",
			"leadership acquired peer=host-b previous=host-b term=2",
			"pxe lapsed peer=host-a",
			"pxe opened peer=host-b",
			"pxe closed peer=host-b",
		}},
		"members": {func(r *rig) {
			r.session("b")
			r.session("b") // a restart within the ttl
			r.session("a")
			r.pass(membership.SessionTTL)
			r.must(Probe{})
			a := r.session("a")
			r.must(membership.Exclude{Peer: "b", From: membership.FromLeading, On: true, Force: true})
			r.must(membership.Exclude{Peer: "b", From: membership.FromLeading})
			r.must(membership.MoveMember{Peer: "b", Address: "elsewhere:7350"})
			r.must(membership.EndSession{Session: a})
			r.must(membership.EndSession{Session: a}) // over already
			r.must(membership.RemoveMember{ID: "b", Force: true})
		}, []string{
			"member joined peer=host-b address=b.example:7350",
			"member connected peer=host-b",
			"member connected peer=host-b restarted=true",
			"member connected peer=host-a",
			"member lost peer=host-b",
			"member lost peer=host-a",
			"member connected peer=host-a",
			"member maintenance-began peer=host-b",
			"member maintenance-ended peer=host-b",
			"member moved peer=host-b address=elsewhere:7350",
			"member stopped peer=host-a",
			"member removed peer=host-b",
		}},
	}
}

// workEventCases are about nodes, leases and rules.
func workEventCases() map[string]eventCase {
	return map[string]eventCase{
		"introspection": {func(r *rig) {
			s := r.session("a")
			r.mustAs(Header{Session: s}, introspection.Start{Node: nodeA, Event: introspection.EventStart, Timeout: time.Hour})
			r.work(r.t, s, introspection.Advance{Event: introspection.EventWait, Consume: true})
			doc := pack(r.t, "document")
			r.mustAs(Header{Session: s}, introspection.TakeCallback{Node: nodeA, Document: doc, Hook: "scheduler"})
			c := r.view().Claims()[0]
			r.must(introspection.Mark{Claim: c.Hold(), Hook: "rules"})
			r.must(introspection.Advance{Claim: c.Hold(), Event: introspection.EventError, Error: "no disk\xc2\xa0found",
				Consume: true})
			r.must(introspection.DeleteNode{Node: nodeA})
		}, []string{
			"member connected peer=host-a",
			"introspection starting peer=host-a node=" + nodeA + " cause=start",
			"introspection waiting peer=host-a node=" + nodeA + " cause=wait from=starting",
			"introspection processing peer=host-a node=" + nodeA + " cause=process from=waiting",
			"introspection error peer=host-a node=" + nodeA + " cause=error error=no disk\u00a0found from=processing",
			"introspection deleted node=" + nodeA + " state=error",
		}},
		"leases": {func(r *rig) {
			one := r.must(leases.Grant{Name: "l", Holder: "h", TTL: time.Minute}).Token
			r.must(leases.Renew{Name: "l", Holder: "h", Token: one}) // no event
			two := r.must(leases.Grant{Name: "l", Holder: "h", TTL: time.Minute, Takeover: true}).Token
			r.must(leases.Steps{Steps: []leases.Step{{Name: "l", Holder: "h", Token: two, Release: true}}})
			r.must(leases.Grant{Name: "l", Holder: "i", TTL: time.Minute})
			r.pass(time.Minute)
			r.must(Probe{})
		}, []string{
			"lease granted holder=h lease=l ttl=1m0s",
			"lease taken-over holder=h lease=l ttl=1m0s",
			"lease released holder=h lease=l ttl=1m0s",
			"lease granted holder=i lease=l ttl=1m0s",
			"lease expired holder=i lease=l ttl=1m0s",
		}},
		"rules": {func(r *rig) {
			r.must(ruleset.Create{UUID: nodeA, Body: []byte("{}")})
			r.must(ruleset.Delete{UUID: nodeA})
			r.must(ruleset.DeleteAll{}) // there are none
			r.must(ruleset.Create{UUID: nodeB, Body: []byte("{}")})
			r.must(ruleset.DeleteAll{})
		}, []string{
			"rule created rule=" + nodeA, "rule deleted rule=" + nodeA, "rule created rule=" + nodeB, "rule all-deleted count=1",
		}},
		"reports": {func(r *rig) {
			s := r.session("a")
			r.mustAs(Header{Session: s}, ReportEvents{Reports: []eventring.Report{
				{Topic: eventring.TopicFilter, Action: "drifted", Text: "One."},
				{Topic: eventring.TopicAudit, Action: "call", Text: "Two.", Fields: map[string]string{"who": "ann"}},
			}})
			r.refused(SessionEnded, Header{},
				ReportEvents{Reports: []eventring.Report{{Topic: eventring.TopicFilter, Action: "drifted", Text: "One."}}})
		}, []string{
			"member connected peer=host-a", "filter drifted peer=host-a", "audit call peer=host-a who=ann",
		}},
	}
}

// TestEventsOfCommands commits one command of each kind that makes events, and
// compares what is recorded.
func TestEventsOfCommands(t *testing.T) {
	cases := clusterEventCases()
	maps.Copy(cases, workEventCases())
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			seen := r.view().Events().Last() // the founding's
			c.do(r)
			var got []string
			for e := range r.view().Events().After(seen) {
				got = append(got, told(e.Decode()))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("recorded are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// A remediation's steps are events, and a step that is refused is none.
func TestEventsOfRemediations(t *testing.T) {
	r := newRig(t)
	r.must(Lead{Peer: "a", Boot: "1"})
	r.busyFailover(r.session("a"))
	actions := map[string]bool{}
	for _, e := range events(r.view()) {
		if e.Topic == eventring.TopicRemediation {
			actions[e.Action] = true
			if e.Fields["kube_node"] == "" || e.Fields["intent"] == "" {
				t.Errorf("event %v of a remediation does not name the kube node and the intent: %v", e.ID, e.Fields)
			}
		}
	}
	for _, want := range []string{"intent", "cordoned", "fencing"} {
		if !actions[want] {
			t.Errorf("no event of a remediation that is %s; there are %v", want, actions)
		}
	}
}

// Several events of one entry are numbered, also where the first ended by itself.
func TestEventsOfOneEntry(t *testing.T) {
	r := newRig(t)
	r.must(leases.Grant{Name: "l", Holder: "h", TTL: time.Second})
	r.must(leases.Grant{Name: "k", Holder: "h", TTL: time.Second})
	r.pass(time.Second)
	seen := r.view().Events().Last()
	r.must(leases.Grant{Name: "l", Holder: "i", TTL: time.Second})
	var ids []string
	for e := range r.view().Events().After(seen) {
		ids = append(ids, e.ID().String())
	}
	want := []string{fmt.Sprintf("1-%d-0", r.index), fmt.Sprintf("1-%d-1", r.index), fmt.Sprintf("1-%d-2", r.index)}
	if !slices.Equal(ids, want) {
		t.Errorf("the events are %v, want %v", ids, want)
	}
	for _, id := range ids {
		back, err := eventring.ParseID(id)
		if err != nil || back.String() != id {
			t.Errorf("%s is read as %v: %v", id, back, err)
		}
	}
	for _, id := range []string{"", "1-2", "1-2-3-4", "1-2-x", "-1-2-3", "1-2-4294967296", "1.5-2-3"} {
		if back, err := eventring.ParseID(id); err == nil {
			t.Errorf("%q is read as %v", id, back)
		}
	}
}

// The members of an older cluster cannot read events: none are recorded there.
func TestEventsNeedTheLogVersion(t *testing.T) {
	r := newRig(t)
	r.must(membership.PutMember{Member: member("b")})
	r.older("b", 1)
	before := r.view().Events().Last()
	r.must(Lead{Peer: "a", Boot: "1"})
	if got := r.view().Events().Last(); got != before {
		t.Errorf("event %v was recorded in a cluster of log version %d", got, r.view().ClusterVersion())
	}
	if err := r.view().Admits(ReportEvents{}); err == nil {
		t.Error("a report is admitted in a cluster of an older log version")
	}
	r.older("b", 2)
	r.must(Lead{Peer: "b", Boot: "1"})
	if got := r.view().Events().Last(); got == before {
		t.Error("no event was recorded after the upgrade")
	}
}

// A snapshot holds the ring with what was dropped, and one without events is read:
// that of an older version.
func TestEventsInSnapshots(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	reports := make([]eventring.Report, MaxEventReports)
	for i := range reports {
		reports[i] = eventring.Report{Topic: eventring.TopicWarning, Action: "raised",
			Text: strings.Repeat("x", eventring.MaxText)}
	}
	data := encoded(t, Header{Session: s}, ReportEvents{Reports: reports})
	for r.view().Events().Forgotten().IsZero() {
		r.index++
		if res := r.state.Apply(Entry{Index: r.index, Term: r.term, Data: data}); res.Code != OK {
			t.Fatal(res.Message)
		}
	}
	back, err := Read(bytes.NewReader(snapshot(t, r.view())))
	if err != nil {
		t.Fatal(err)
	}
	if back.View().Events().Forgotten() != r.view().Events().Forgotten() {
		t.Errorf("after a snapshot the ring dropped up to %v, without one up to %v", back.View().Events().Forgotten(),
			r.view().Events().Forgotten())
	}
	for range 2 * 64 {
		r.index++
		e := Entry{Index: r.index, Term: r.term, Data: data}
		r.state.Apply(e)
		back.Apply(e)
	}
	if back.View().Hash() != r.view().Hash() || back.View().Events().Forgotten() != r.view().Events().Forgotten() {
		t.Errorf("after a snapshot the ring dropped up to %v, without one up to %v", back.View().Events().Forgotten(),
			r.view().Events().Forgotten())
	}
	if err := back.View().Check(); err != nil {
		t.Error(err)
	}
}

// A cluster that is founded again goes on with the events that it had, under a new
// incarnation: their IDs are not used again.
func TestEventsOutliveAFounding(t *testing.T) {
	r := newRig(t)
	r.must(Lead{Peer: "a", Boot: "1"})
	before := r.view().Events().Last()
	count, _ := r.view().Events().Size()
	if err := r.state.Refound(
		Refound{Index: r.index, UnixMillis: r.wall, NewIncarnation: true, Survivor: "a"}); err != nil {
		t.Fatal(err)
	}
	if got := r.view().Events().Last(); got != before {
		t.Errorf("the newest event is %v, before the founding it was %v", got, before)
	}
	r.must(Lead{Peer: "a", Boot: "2"})
	after := r.view().Events().Last()
	if got, _ := r.view().Events().Size(); got != count+1 || after.Incarnation != r.view().Incarnation() ||
		after.Incarnation <= before.Incarnation {
		t.Errorf("%d events, the newest is %v of incarnation %d, before it was %v", got, after, r.view().Incarnation(),
			before)
	}
}

// A later founding may go on from a backup, at a lower index than the history before.
func TestEventIDsOfALaterFoundingAreLater(t *testing.T) {
	id := func(incarnation, index uint64, seq uint32) eventring.ID {
		return eventring.ID{Incarnation: incarnation, Index: index, Seq: seq}
	}
	sorted := []eventring.ID{{}, id(1, 9, 3), id(1, 10, 0), id(1, 10, 1), id(2, 3, 0), id(2, 10, 0), id(3, 1, 0)}
	for i, id := range sorted {
		for j, other := range sorted {
			if got := id.Compare(other); got != cmp.Compare(i, j) {
				t.Errorf("later-founding: %v compared with %v is %d", id, other, got)
			}
		}
	}
}

// Where others may have read another event or value under the name of one that is not
// proven to have been committed, it gets a name of the new history.
func TestFoundingRenamesWhatMayNotHaveBeenCommitted(t *testing.T) {
	for _, tail := range []uint64{0, 1, 10, 80, 150} { // an open segment, a full one, several
		r := newRig(t)
		for i := range 160 {
			r.must(membership.PutMember{Member: member(fmt.Sprint("m", i%membership.MaxMembers/2))})
			r.must(leases.PutValue{Key: fmt.Sprintf("k%03d", i), If: leases.Condition{Compare: true}})
			r.must(ruleset.Create{UUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Body: []byte("{}")})
		}
		before := r.view()
		certain := r.index - tail
		r.refound(Refound{Index: r.index, Uncommitted: tail, UnixMillis: r.wall, NewIncarnation: true, Survivor: "a"})
		after := r.view()
		events := slices.Collect(after.Events().After(eventring.ID{}))
		for i, was := range slices.Collect(before.Events().After(eventring.ID{})) {
			want := was.ID()
			if want.Index > certain {
				want.Incarnation = after.Incarnation()
			}
			if events[i].ID() != want || was.ID().Incarnation != before.Incarnation() {
				t.Errorf("renamed-tail: with %d entries not proven, event %v is %v now, want %v", tail, was.ID(), events[i].ID(),
					want)
			}
		}
		for was := range before.Values("") {
			is, _ := after.Value(was.Key)
			if fresh := was.Version > fencing.At(before.Base(), certain); fresh != (is.Version != was.Version) ||
				fresh && is.Version <= fencing.Token(before.Base()+before.Index()) {
				t.Errorf("renamed-tail: with %d entries not proven, %s had version %v and has %v", tail, was.Key, was.Version,
					is.Version)
			}
		}
	}
}

// A refused command leaves no event behind, not even one of the verbs that it uses.
func TestRefusedCommandsMakeNoEvents(t *testing.T) {
	r := newRig(t)
	r.must(Lead{Peer: "a", Boot: "1"})
	last := r.view().Events().Last()
	r.refused(NotFound, Header{}, ruleset.Delete{UUID: nodeA})
	r.refused(StaleToken, Header{Token: 1}, doors.PassOpen{})
	r.refused(Refused, Header{},
		membership.Observe{Hash: [32]byte{1},
			Member: membership.Member{ID: "z", Name: "host-a", Address: "a.example:7350", Version: Version}})
	if got := r.view().Events().Last(); got != last {
		t.Errorf("event %v was recorded, the newest was %v", got, last)
	}
}
