package fsm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/relays"
)

// relayed accepts a document that is to be handed on, for a minute.
func (r *rig) relayed(node, document string) relays.Relayed {
	r.t.Helper()
	return relayedOf(r.t, r.must(
		relays.Accept{Node: node, Document: pack(r.t, document), Timeout: time.Minute, Keep: time.Hour}))
}

func relayedOf(t testing.TB, res Result) (out relays.Relayed) {
	t.Helper()
	if err := res.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// tried begins an attempt.
func (r *rig) tried(of relays.Relayed) (out relays.Relay) {
	r.t.Helper()
	if err := r.asLeader(relays.Try{Sequence: of.Sequence}).Decode(&out); err != nil {
		r.t.Fatal(err)
	}
	return out
}

// settled ends the last attempt.
func (r *rig) settled(of relays.Relayed, outcome relays.Outcome) (out relays.Relay) {
	r.t.Helper()
	now, _ := r.view().Relay(of.Sequence)
	if err := r.asLeader(relays.Settle{Sequence: of.Sequence, Try: now.Tries, Outcome: outcome, Reason: "because",
		Keep: time.Hour}).Decode(&out); err != nil {
		r.t.Fatal(err)
	}
	return out
}

func leading(t testing.TB) *rig {
	r := newRig(t)
	r.must(Lead{Peer: "a", Boot: "b"})
	return r
}

// What attempts make of a relay, each row one of its own.
func TestRelayOutcomes(t *testing.T) {
	for _, c := range []struct {
		name     string
		outcomes []relays.Outcome // 0: the leader dies before it settles
		state    relays.State
	}{
		{"taken", []relays.Outcome{relays.OutcomeTaken}, relays.Taken},
		{"refused", []relays.Outcome{relays.OutcomeRefused}, relays.Failed},
		{"not awaited yet", []relays.Outcome{relays.OutcomeAbsent}, relays.Pending},
		{"not reached", []relays.Outcome{relays.OutcomeAgain, relays.OutcomeAgain, relays.OutcomeAbsent}, relays.Pending},
		{"taken after all", []relays.Outcome{relays.OutcomeAgain, relays.OutcomeLost, relays.OutcomeTaken}, relays.Taken},
		{"absent after a lost answer", []relays.Outcome{relays.OutcomeLost, relays.OutcomeAbsent}, relays.Taken},
		{"absent after a lost answer and another word",
			[]relays.Outcome{relays.OutcomeLost, relays.OutcomeAgain, relays.OutcomeAbsent}, relays.Taken},
		{"absent after a leader that died", []relays.Outcome{0, relays.OutcomeAbsent}, relays.Taken},
		{"refused after a leader that died", []relays.Outcome{0, relays.OutcomeRefused}, relays.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := leading(t)
			of := r.relayed(nodeA, "d")
			for _, outcome := range c.outcomes {
				r.tried(of)
				if outcome != 0 {
					r.settled(of, outcome)
				}
			}
			got, _ := r.view().Relay(of.Sequence)
			if got.State != c.state || got.Tries != len(c.outcomes) {
				t.Errorf("%+v, want %v", got, c.state)
			}
			if pending := r.view().RelaysPending(); (pending == 1) != (c.state == relays.Pending) {
				t.Errorf("%d are pending", pending)
			}
		})
	}
}

// Ironic may not wait for its node yet; after a while it is believed.
func TestRelayAbsentTimeout(t *testing.T) {
	r := leading(t)
	of := r.relayed(nodeA, "d")
	for range 2 { // the time between is counted from the first 404 of a row
		r.tried(of)
		r.settled(of, relays.OutcomeAbsent)
		r.pass(relays.AbsentTimeout - time.Second)
		r.tried(of)
		if got := r.settled(of, relays.OutcomeAbsent); got.State != relays.Pending {
			t.Fatalf("%+v", got)
		}
		r.tried(of)
		r.settled(of, relays.OutcomeAgain)
	}
	r.tried(of)
	r.settled(of, relays.OutcomeAbsent)
	r.pass(relays.AbsentTimeout)
	r.tried(of)
	if got := r.settled(of, relays.OutcomeAbsent); got.State != relays.Failed || got.Reason != "because" {
		t.Errorf("%+v", got)
	}
}

// An attempt is settled once, and no later one is settled in its place.
func TestRelaySettlesItsOwnAttempt(t *testing.T) {
	r := leading(t)
	of := r.relayed("", "d")
	token := r.view().Leadership().Token
	r.refused(Conflict, Header{Token: token}, relays.Settle{Sequence: of.Sequence, Outcome: relays.OutcomeTaken})
	r.tried(of)
	r.tried(of)
	r.refused(Conflict, Header{Token: token},
		relays.Settle{Sequence: of.Sequence, Try: 1, Outcome: relays.OutcomeRefused, Reason: "x"})
	r.settled(of, relays.OutcomeAgain)
	r.refused(Conflict, Header{Token: token}, relays.Settle{Sequence: of.Sequence, Try: 2, Outcome: relays.OutcomeTaken})
	r.refused(NotFound, Header{Token: token}, relays.Try{Sequence: 1})
	r.refused(NotFound, Header{Token: token}, relays.Settle{Sequence: 1, Outcome: relays.OutcomeTaken})
	r.refused(Refused, Header{}, relays.Try{Sequence: of.Sequence})
	got := r.settled(of, relays.OutcomeGiveUp)
	if got.State != relays.Failed || !strings.Contains(got.Reason, "did not take it in time; last: because") {
		t.Errorf("%+v", got)
	}
	r.refused(Conflict, Header{Token: token}, relays.Try{Sequence: of.Sequence})
}

// A document that comes again is the same one for a while; later it is of
// another inspection, unless the first is still on its way.
func TestRelayRepeats(t *testing.T) {
	r := leading(t)
	first := r.relayed(nodeA, "d")
	r.pass(30 * time.Minute)
	if again := r.relayed(nodeB, "d"); !again.Joined || again.Sequence != first.Sequence || again.Node != nodeA {
		t.Errorf("while it is pending: %+v", again)
	}
	r.tried(first)
	r.settled(first, relays.OutcomeTaken)
	second := r.relayed(nodeA, "d")
	if second.Joined {
		t.Errorf("long after its acceptance: %+v", second)
	}
	r.tried(second)
	r.settled(second, relays.OutcomeTaken)
	r.pass(relays.Repeat - time.Second)
	if again := r.relayed(nodeA, "d"); !again.Joined || again.Sequence != second.Sequence {
		t.Errorf("within a minute: %+v", again)
	}
	if newest, ok := r.view().RelayOf(nodeA); !ok || newest.Sequence != second.Sequence {
		t.Errorf("newest %+v", newest)
	}
	r.pass(time.Hour)
	r.must(Probe{})
	if left := slices.Collect(r.view().Relays()); len(left) != 0 {
		t.Errorf("kept for longer than was asked: %+v", left)
	}
}

// A document that Ironic waits for again is not the one that it took, or will never get, once:
// whoever names an older relay, or none while one is on its way, joins.
func TestRelayOfAnotherInspection(t *testing.T) {
	for outcome, state := range map[relays.Outcome]relays.State{
		relays.OutcomeTaken: relays.Taken, relays.OutcomeRefused: relays.Failed,
	} {
		r := leading(t)
		first := r.relayed(nodeA, "d")
		again := relays.Accept{Node: nodeA, Document: pack(t, "d"), Timeout: time.Minute, After: first.Sequence}
		r.tried(first)
		if outcome == relays.OutcomeTaken {
			r.settled(first, outcome)
		}
		second := relayedOf(t, r.must(again))
		if outcome != relays.OutcomeTaken { // it was pending until now
			r.settled(first, outcome)
		}
		if late := relayedOf(t, r.must(again)); second.Joined || !late.Joined || late.Sequence != second.Sequence {
			t.Errorf("inspection-apart: %v: after a new inspection %+v, and at another peer %+v", state, second, late)
		}
		r.tried(second)
		r.settled(second, relays.OutcomeTaken)
		if late := relayedOf(t, r.must(again)); !late.Joined || late.Sequence != second.Sequence {
			t.Errorf("inspection-apart: %v: of one who saw the node wait before: %+v", state, late)
		}
	}
}

// Ironic may turn out to wait for none; what it took before is no failure.
func TestRelayThatWasARepeatAfterAll(t *testing.T) {
	for outcome, state := range map[relays.Outcome]relays.State{
		relays.OutcomeTaken: relays.Taken, relays.OutcomeRefused: relays.Failed,
	} {
		r := leading(t)
		first := r.relayed(nodeA, "d")
		r.tried(first)
		r.settled(first, outcome)
		again := relayedOf(t, r.must(relays.Accept{Node: nodeA, Document: pack(t, "d"), Timeout: time.Minute,
			After: first.Sequence, Unsure: true}))
		if _, kept := r.view().Relay(first.Sequence); kept {
			t.Error("repeat-ends: what may be a repeat is kept twice")
		}
		for range 2 {
			r.tried(again)
			r.settled(again, relays.OutcomeAbsent)
			r.pass(relays.AbsentTimeout + time.Second)
		}
		if got, _ := r.view().Relay(again.Sequence); got.State != state {
			t.Errorf("repeat-ends: %+v, want %v", got, state)
		}
	}
}

// Peers that apply the log of version 2 do not know what Accept.After means.
func TestRelayOfAnotherInspectionNeedsVersion3(t *testing.T) {
	r := leading(t)
	r.older("a", 2)
	after := relays.Accept{Document: pack(t, "d"), Timeout: time.Minute, After: 7}
	if err := r.view().Admits(after); err == nil || !strings.Contains(err.Error(), "log version 3") {
		t.Errorf("after-version: %v", err)
	}
	after.After = 0
	if err := r.view().Admits(after); err != nil {
		t.Error(err)
	}
}

// Whoever accepted it may have tried before.
func TestRelayAcceptedAfterAnAttempt(t *testing.T) {
	r := leading(t)
	lost := relayedOf(t, r.must(relays.Accept{Document: pack(t, "lost"), Timeout: time.Minute, Tried: relays.OutcomeLost}))
	taken := relayedOf(t, r.must(
		relays.Accept{Node: nodeA, Document: pack(t, "taken"), Timeout: time.Minute, Tried: relays.OutcomeTaken}))
	if got, _ := r.view().Relay(taken.Sequence); got.State != relays.Taken || got.Tries != 1 {
		t.Errorf("%+v", got)
	}
	r.tried(lost)
	if got := r.settled(lost, relays.OutcomeAbsent); got.State != relays.Taken {
		t.Errorf("%+v", got)
	}
}

// A restored state does not know of attempts that came after it.
func TestRefoundDoubtsRelays(t *testing.T) {
	r := leading(t)
	of := r.relayed(nodeA, "d")
	if err := r.state.Refound(Refound{Index: r.index, UnixMillis: 1}); err != nil {
		t.Fatal(err)
	}
	r.must(Lead{Peer: "a", Boot: "b"})
	r.tried(of)
	if got := r.settled(of, relays.OutcomeAbsent); got.State != relays.Taken {
		t.Errorf("%+v", got)
	}
}

func TestNodesByPort(t *testing.T) {
	r := leading(t)
	r.asLeader(ironicports.PutPorts{
		Ports: []ironicports.Port{{ID: "p1", MAC: macN(1), Node: nodeA}, {ID: "p2", MAC: macN(1), Node: nodeB},
			{ID: "p3", MAC: macN(2), Node: nodeA}}})
	for mac, want := range map[string][]string{macN(1): {nodeA, nodeB}, macN(2): {nodeA}, macN(3): nil} {
		if got := r.view().NodesByPort(mac); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", mac, got, want)
		}
	}
}

// kept is what the model has of relays whose time is not over, the newest first.
func (m *model) kept() (kept []relays.Relay) {
	for _, r := range slices.Backward(m.relays) {
		if r.Expires == 0 || r.Expires > m.now {
			kept = append(kept, *r)
		}
	}
	return kept
}

// relay is what the model makes of a command about relays.
func (m *model) relay(c Command) Code {
	if c, ok := c.(relays.Accept); ok {
		m.accept(c)
		return OK
	}
	var sequence fencing.Token
	settle, settles := c.(relays.Settle)
	introduced, introduces := c.(relays.Introduced)
	switch {
	case settles:
		sequence = settle.Sequence
	case introduces:
		sequence = introduced.Sequence
	default:
		sequence = c.(relays.Try).Sequence
	}
	if m.header.Token == 0 && !introduces {
		return Refused
	}
	i := slices.IndexFunc(m.relays,
		func(r *relays.Relay) bool { return r.Sequence == sequence && (r.Expires == 0 || r.Expires > m.now) })
	if i < 0 {
		return NotFound
	}
	r := m.relays[i]
	if r.State != relays.Pending || introduces && (introduced.Try != r.Tries || r.Open || !r.Doubt) ||
		settles && (settle.Try != r.Tries || !r.Open && settle.Outcome != relays.OutcomeGiveUp) {
		return Conflict
	}
	switch {
	case settles:
		m.settleRelay(r, settle)
		return OK
	case introduces && (introduced.Outcome == relays.OutcomeRefused || introduced.Outcome == relays.OutcomeAbsent):
		m.relays = slices.Delete(m.relays, i, i+1)
		return OK
	case introduces:
		r.Doubt = introduced.Outcome != relays.OutcomeAgain
		m.settleRelay(r, relays.Settle(introduced))
		return OK
	}
	r.Doubt, r.Open, r.Tries = r.Doubt || r.Open, true, r.Tries+1
	return OK
}

func (m *model) accept(c relays.Accept) {
	var after fencing.Token
	var replaced *relays.Relay
	for _, r := range m.kept() {
		if r.Document == c.Document.Hash && (r.State == relays.Pending || m.now < r.Accepted.Add(relays.Repeat)) {
			if r.Sequence != c.After {
				return
			}
			if r.State == relays.Taken {
				after = c.After
			}
			replaced = m.relays[slices.IndexFunc(m.relays, func(one *relays.Relay) bool { return one.Sequence == r.Sequence })]
			break
		}
	}
	r := &relays.Relay{
		Sequence: m.token(), Node: c.Node, Document: c.Document.Hash, State: relays.Pending,
		Doubt:    c.Tried == relays.OutcomeLost,
		Origin:   relays.Origin{Source: c.Source, After: after},
		Accepted: m.now, Deadline: m.now.Add(c.Timeout), AcceptedMillis: m.wall,
	}
	if c.Tried != 0 {
		r.Tries = 1
	}
	if c.Tried == relays.OutcomeTaken {
		m.endRelay(r, relays.Taken, c.Keep)
	}
	if c.Unsure && replaced != nil && replaced.State != relays.Pending {
		m.relays = slices.DeleteFunc(m.relays, func(r *relays.Relay) bool { return r == replaced })
	}
	m.relays = append(m.relays, r)
}

func (m *model) settleRelay(r *relays.Relay, c relays.Settle) {
	r.Open = false
	if c.Outcome != relays.OutcomeAbsent && c.Outcome != relays.OutcomeGiveUp {
		r.Absent = 0
	}
	if r.Node == "" {
		r.Node = c.Node
	}
	switch c.Outcome {
	case relays.OutcomeTaken:
		m.endRelay(r, relays.Taken, c.Keep)
	case relays.OutcomeRefused, relays.OutcomeGiveUp:
		m.endRelay(r, relays.Failed, c.Keep)
	case relays.OutcomeLost:
		r.Doubt = true
	case relays.OutcomeAbsent:
		if r.Doubt {
			m.endRelay(r, relays.Taken, c.Keep)
			return
		}
		if r.Absent == 0 {
			r.Absent = max(m.now, 1)
		}
		if m.now >= r.Absent.Add(relays.AbsentTimeout) {
			m.endRelay(r, map[bool]relays.State{true: relays.Failed, false: relays.Taken}[r.After.IsZero()], c.Keep)
		}
	}
}

func (m *model) endRelay(r *relays.Relay, state relays.State, keep time.Duration) {
	if keep == 0 {
		keep = relays.MaxKeep
	}
	r.State, r.Open, r.Expires, r.EndedMillis = state, false, m.now.Add(keep), m.wall
}

func relaysText(relays []relays.Relay) string {
	var b strings.Builder
	for _, r := range relays {
		fmt.Fprintf(&b,
			"relay %v after %v of %q from %q %v %v, %d tries, open %v, doubt %v, %v until %v, absent %v, kept until %v, %d–%d\n",
			r.Sequence, r.After, r.Node, r.Source, r.Document, r.State,
			r.Tries, r.Open, r.Doubt, r.Accepted, r.Deadline, r.Absent, r.Expires, r.AcceptedMillis, r.EndedMillis)
	}
	return b.String()
}

// accepts draws a document that is to be handed on.
func (m *machine) accepts(t *rapid.T) Command {
	return relays.Accept{
		Node:     rapid.SampledFrom([]string{"", nodeA, nodeB}).Draw(t, "of"),
		Source:   rapid.SampledFrom([]string{"", "192.0.2.1/32", "192.0.2.10/32"}).Draw(t, "source"),
		Document: rapid.SampledFrom(m.docs).Draw(t, "document"), Timeout: time.Minute,
		Keep:  rapid.SampledFrom([]time.Duration{0, 5 * time.Second}).Draw(t, "keep"),
		Tried: rapid.SampledFrom([]relays.Outcome{0, 0, 0, relays.OutcomeTaken, relays.OutcomeLost}).Draw(t, "tried"),
		After: m.after(t), Unsure: rapid.Bool().Draw(t, "unsure"),
	}
}

// after draws the relay that a document does not repeat, mostly none.
func (m *machine) after(t *rapid.T) fencing.Token {
	if len(m.model.relays) == 0 || !rapid.Bool().Draw(t, "again") {
		return 0
	}
	return rapid.SampledFrom(m.model.relays).Draw(t, "after").Sequence
}

// ofRelay draws what the leader does with one.
func (m *machine) ofRelay(t *rapid.T) Command {
	if len(m.model.relays) == 0 {
		return m.accepts(t)
	}
	r := rapid.SampledFrom(m.model.relays).Draw(t, "relay")
	if rapid.Bool().Draw(t, "try") {
		return relays.Try{Sequence: r.Sequence}
	}
	settle := relays.Settle{
		Sequence: r.Sequence, Try: r.Tries - rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "back"), Reason: "because",
		Keep:    5 * time.Second,
		Node:    rapid.SampledFrom([]string{"", nodeB}).Draw(t, "of"),
		Outcome: relays.Outcome(rapid.IntRange(int(relays.OutcomeTaken), int(relays.OutcomeGiveUp)).Draw(t, "outcome")),
	}
	if rapid.Bool().Draw(t, "introduced") {
		return relays.Introduced(settle)
	}
	return settle
}

func TestRelaysAreValidated(t *testing.T) {
	long, good := strings.Repeat("x", 5<<10+1), pack(t, "x")
	for _, c := range []Command{
		relays.Accept{Timeout: 1}, relays.Accept{Node: "x", Document: good, Timeout: 1}, relays.Accept{Document: good},
		relays.Accept{Document: good, Timeout: 1, Keep: relays.MaxKeep + 1},
		relays.Accept{Document: good, Timeout: 1, Tried: relays.OutcomeRefused},
		relays.Accept{Document: good, Timeout: 1, Source: strings.Repeat("x", 65)},
		relays.Accept{Document: good, Timeout: 1, Source: "a b"},
		relays.Accept{Document: blobs.Packed{Hash: blobs.Hash{1}, Data: []byte("plain")}, Timeout: 1},
		relays.Settle{}, relays.Settle{Outcome: relays.OutcomeGiveUp + 1, Reason: "x"},
		relays.Settle{Outcome: relays.OutcomeLost},
		relays.Settle{Outcome: relays.OutcomeLost, Reason: long}, relays.Settle{Outcome: relays.OutcomeTaken, Keep: -1},
		relays.Settle{Outcome: relays.OutcomeTaken, Node: "x"}, relays.Introduced{},
	} {
		if _, err := Encode(Header{}, c); !errors.Is(err, Invalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
