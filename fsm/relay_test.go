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
	"github.com/trivet-ha/trivet/fsm/table"
)

// relayed accepts a document that is to be handed on, for a minute.
func (r *rig) relayed(node, document string) Relayed {
	r.t.Helper()
	return relayedOf(r.t, r.must(AcceptRelay{Node: node, Document: pack(r.t, document), Timeout: time.Minute, Keep: time.Hour}))
}

func relayedOf(t testing.TB, res Result) (out Relayed) {
	t.Helper()
	if err := res.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// tried begins an attempt.
func (r *rig) tried(of Relayed) (out Relay) {
	r.t.Helper()
	if err := r.asLeader(TryRelay{Sequence: of.Sequence}).Decode(&out); err != nil {
		r.t.Fatal(err)
	}
	return out
}

// settled ends the last attempt.
func (r *rig) settled(of Relayed, outcome RelayOutcome) (out Relay) {
	r.t.Helper()
	now, _ := r.view().Relay(of.Sequence)
	if err := r.asLeader(SettleRelay{Sequence: of.Sequence, Try: now.Tries, Outcome: outcome, Reason: "because", Keep: time.Hour}).Decode(&out); err != nil {
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
		outcomes []RelayOutcome // 0: the leader dies before it settles
		state    RelayState
	}{
		{"taken", []RelayOutcome{OutcomeTaken}, RelayTaken},
		{"refused", []RelayOutcome{OutcomeRefused}, RelayFailed},
		{"not awaited yet", []RelayOutcome{OutcomeAbsent}, RelayPending},
		{"not reached", []RelayOutcome{OutcomeAgain, OutcomeAgain, OutcomeAbsent}, RelayPending},
		{"taken after all", []RelayOutcome{OutcomeAgain, OutcomeLost, OutcomeTaken}, RelayTaken},
		{"absent after a lost answer", []RelayOutcome{OutcomeLost, OutcomeAbsent}, RelayTaken},
		{"absent after a lost answer and another word", []RelayOutcome{OutcomeLost, OutcomeAgain, OutcomeAbsent}, RelayTaken},
		{"absent after a leader that died", []RelayOutcome{0, OutcomeAbsent}, RelayTaken},
		{"refused after a leader that died", []RelayOutcome{0, OutcomeRefused}, RelayFailed},
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
			if pending := r.view().RelaysPending(); (pending == 1) != (c.state == RelayPending) {
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
		r.settled(of, OutcomeAbsent)
		r.pass(RelayAbsentTimeout - time.Second)
		r.tried(of)
		if got := r.settled(of, OutcomeAbsent); got.State != RelayPending {
			t.Fatalf("%+v", got)
		}
		r.tried(of)
		r.settled(of, OutcomeAgain)
	}
	r.tried(of)
	r.settled(of, OutcomeAbsent)
	r.pass(RelayAbsentTimeout)
	r.tried(of)
	if got := r.settled(of, OutcomeAbsent); got.State != RelayFailed || got.Reason != "because" {
		t.Errorf("%+v", got)
	}
}

// An attempt is settled once, and no later one is settled in its place.
func TestRelaySettlesItsOwnAttempt(t *testing.T) {
	r := leading(t)
	of := r.relayed("", "d")
	token := r.view().Leadership().Token
	r.refused(Conflict, Header{Token: token}, SettleRelay{Sequence: of.Sequence, Outcome: OutcomeTaken})
	r.tried(of)
	r.tried(of)
	r.refused(Conflict, Header{Token: token}, SettleRelay{Sequence: of.Sequence, Try: 1, Outcome: OutcomeRefused, Reason: "x"})
	r.settled(of, OutcomeAgain)
	r.refused(Conflict, Header{Token: token}, SettleRelay{Sequence: of.Sequence, Try: 2, Outcome: OutcomeTaken})
	r.refused(NotFound, Header{Token: token}, TryRelay{Sequence: 1})
	r.refused(NotFound, Header{Token: token}, SettleRelay{Sequence: 1, Outcome: OutcomeTaken})
	r.refused(Refused, Header{}, TryRelay{Sequence: of.Sequence})
	got := r.settled(of, OutcomeGiveUp)
	if got.State != RelayFailed || !strings.Contains(got.Reason, "did not take it in time; last: because") {
		t.Errorf("%+v", got)
	}
	r.refused(Conflict, Header{Token: token}, TryRelay{Sequence: of.Sequence})
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
	r.settled(first, OutcomeTaken)
	second := r.relayed(nodeA, "d")
	if second.Joined {
		t.Errorf("long after its acceptance: %+v", second)
	}
	r.tried(second)
	r.settled(second, OutcomeTaken)
	r.pass(RelayRepeat - time.Second)
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

// Whoever accepted it may have tried before.
func TestRelayAcceptedAfterAnAttempt(t *testing.T) {
	r := leading(t)
	lost := relayedOf(t, r.must(AcceptRelay{Document: pack(t, "lost"), Timeout: time.Minute, Tried: OutcomeLost}))
	taken := relayedOf(t, r.must(AcceptRelay{Node: nodeA, Document: pack(t, "taken"), Timeout: time.Minute, Tried: OutcomeTaken}))
	if got, _ := r.view().Relay(taken.Sequence); got.State != RelayTaken || got.Tries != 1 {
		t.Errorf("%+v", got)
	}
	r.tried(lost)
	if got := r.settled(lost, OutcomeAbsent); got.State != RelayTaken {
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
	if got := r.settled(of, OutcomeAbsent); got.State != RelayTaken {
		t.Errorf("%+v", got)
	}
}

func TestNodesByPort(t *testing.T) {
	r := leading(t)
	r.asLeader(PutPorts{Ports: []Port{{ID: "p1", MAC: macN(1), Node: nodeA}, {ID: "p2", MAC: macN(1), Node: nodeB}, {ID: "p3", MAC: macN(2), Node: nodeA}}})
	for mac, want := range map[string][]string{macN(1): {nodeA, nodeB}, macN(2): {nodeA}, macN(3): nil} {
		if got := r.view().NodesByPort(mac); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", mac, got, want)
		}
	}
}

// kept is what the model has of relays whose time is not over, the newest first.
func (m *model) kept() (kept []Relay) {
	for _, r := range slices.Backward(m.relays) {
		if r.Expires == 0 || r.Expires > m.now {
			kept = append(kept, *r)
		}
	}
	return kept
}

// relay is what the model makes of a command about relays.
func (m *model) relay(c Command) Code {
	if c, ok := c.(AcceptRelay); ok {
		m.accept(c)
		return OK
	}
	var sequence fencing.Token
	settle, settles := c.(SettleRelay)
	if settles {
		sequence = settle.Sequence
	} else {
		sequence = c.(TryRelay).Sequence
	}
	if m.header.Token == 0 {
		return Refused
	}
	i := slices.IndexFunc(m.relays, func(r *Relay) bool { return r.Sequence == sequence && (r.Expires == 0 || r.Expires > m.now) })
	if i < 0 {
		return NotFound
	}
	r := m.relays[i]
	if r.State != RelayPending || settles && (settle.Try != r.Tries || !r.Open && settle.Outcome != OutcomeGiveUp) {
		return Conflict
	}
	if settles {
		m.settleRelay(r, settle)
		return OK
	}
	r.Doubt, r.Open, r.Tries = r.Doubt || r.Open, true, r.Tries+1
	return OK
}

func (m *model) accept(c AcceptRelay) {
	for _, r := range m.kept() {
		if r.Document == c.Document.Hash && (r.State == RelayPending || m.now < r.Accepted.Add(RelayRepeat)) {
			return
		}
	}
	r := &Relay{
		Sequence: m.token(), Node: c.Node, Source: c.Source, Document: c.Document.Hash, State: RelayPending, Doubt: c.Tried == OutcomeLost,
		Accepted: m.now, Deadline: m.now.Add(c.Timeout), AcceptedMillis: m.wall,
	}
	if c.Tried != 0 {
		r.Tries = 1
	}
	if c.Tried == OutcomeTaken {
		m.endRelay(r, RelayTaken, c.Keep)
	}
	m.relays = append(m.relays, r)
}

func (m *model) settleRelay(r *Relay, c SettleRelay) {
	r.Open = false
	if c.Outcome != OutcomeAbsent && c.Outcome != OutcomeGiveUp {
		r.Absent = 0
	}
	if r.Node == "" {
		r.Node = c.Node
	}
	switch c.Outcome {
	case OutcomeTaken:
		m.endRelay(r, RelayTaken, c.Keep)
	case OutcomeRefused, OutcomeGiveUp:
		m.endRelay(r, RelayFailed, c.Keep)
	case OutcomeLost:
		r.Doubt = true
	case OutcomeAbsent:
		if r.Doubt {
			m.endRelay(r, RelayTaken, c.Keep)
			return
		}
		if r.Absent == 0 {
			r.Absent = max(m.now, 1)
		}
		if m.now >= r.Absent.Add(RelayAbsentTimeout) {
			m.endRelay(r, RelayFailed, c.Keep)
		}
	}
}

func (m *model) endRelay(r *Relay, state RelayState, keep time.Duration) {
	if keep == 0 {
		keep = MaxRelayKeep
	}
	r.State, r.Open, r.Expires, r.EndedMillis = state, false, m.now.Add(keep), m.wall
}

func relaysText(relays []Relay) string {
	var b strings.Builder
	for _, r := range relays {
		fmt.Fprintf(&b, "relay %v of %q from %q %v %v, %d tries, open %v, doubt %v, %v until %v, absent %v, kept until %v, %d–%d\n", r.Sequence, r.Node, r.Source, r.Document, r.State,
			r.Tries, r.Open, r.Doubt, r.Accepted, r.Deadline, r.Absent, r.Expires, r.AcceptedMillis, r.EndedMillis)
	}
	return b.String()
}

// accepts draws a document that is to be handed on.
func (m *machine) accepts(t *rapid.T) Command {
	return AcceptRelay{
		Node:   rapid.SampledFrom([]string{"", nodeA, nodeB}).Draw(t, "of"),
		Source: rapid.SampledFrom([]string{"", "192.0.2.1/32", "192.0.2.10/32"}).Draw(t, "source"), Document: rapid.SampledFrom(m.docs).Draw(t, "document"), Timeout: time.Minute,
		Keep:  rapid.SampledFrom([]time.Duration{0, 5 * time.Second}).Draw(t, "keep"),
		Tried: rapid.SampledFrom([]RelayOutcome{0, 0, 0, OutcomeTaken, OutcomeLost}).Draw(t, "tried"),
	}
}

// ofRelay draws what the leader does with one.
func (m *machine) ofRelay(t *rapid.T) Command {
	if len(m.model.relays) == 0 {
		return m.accepts(t)
	}
	r := rapid.SampledFrom(m.model.relays).Draw(t, "relay")
	if rapid.Bool().Draw(t, "try") {
		return TryRelay{Sequence: r.Sequence}
	}
	return SettleRelay{
		Sequence: r.Sequence, Try: r.Tries - rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "back"), Reason: "because", Keep: 5 * time.Second,
		Node:    rapid.SampledFrom([]string{"", nodeB}).Draw(t, "of"),
		Outcome: RelayOutcome(rapid.IntRange(int(OutcomeTaken), int(OutcomeGiveUp)).Draw(t, "outcome")),
	}
}

func corruptRelays(v View) corruptions {
	var taken, pending Relay
	for r := range v.Relays() {
		if r.State == RelayPending {
			pending = r
		} else {
			taken = r
		}
	}
	change := func(r Relay, f func(*Relay)) func(*data) {
		return func(d *data) {
			f(&r)
			d.relays.bySequence.Put(table.TokenKey(r.Sequence), r)
		}
	}
	return corruptions{
		"relay under another key":          func(d *data) { d.relays.bySequence.Put(table.TokenKey(2), pending) },
		"relay missing of its document":    func(d *data) { d.relays.byDocument.Drop(pending.documentKey()) },
		"relay missing of its node":        func(d *data) { d.relays.byNode.Drop(table.NameKey(pending.Node, pending.Sequence)) },
		"pending relay not pending":        func(d *data) { d.relays.pending.Drop(table.TokenKey(pending.Sequence)) },
		"ended relay not ended":            func(d *data) { d.relays.ended.Drop(taken.shares()[0].member(taken.Sequence)) },
		"ended relay in a foreign share":   func(d *data) { d.relays.ended.Put(relayShare{key: "unknown"}.member(taken.Sequence), table.None{}) },
		"ended relay kept for ever":        func(d *data) { d.shared.Disarm(taken.Expires, dueRelay, table.TokenKey(taken.Sequence)) },
		"bytes of relays counted wrong":    func(d *data) { d.relays.used.Put([]byte("all"), relayUse{}) },
		"share of no relay":                func(d *data) { d.relays.used.Put([]byte("unknown"), relayUse{all: relaySum{1, 1}}) },
		"document of a relay gone":         func(d *data) { d.blobs.Unref(pending.Document) },
		"relay in no state":                change(pending, func(r *Relay) { r.State = 0 }),
		"relay of no node's name":          change(pending, func(r *Relay) { r.Node = "x" }),
		"pending relay that ended":         change(pending, func(r *Relay) { r.EndedMillis = 1 }),
		"relay accepted in the future":     change(pending, func(r *Relay) { r.Accepted = v.Now() + 1 }),
		"ended relay with an open attempt": change(taken, func(r *Relay) { r.Open = true }),
		"failed relay without a reason":    change(taken, func(r *Relay) { r.State, r.Reason = RelayFailed, "" }),
		"relay that never ended":           change(taken, func(r *Relay) { r.EndedMillis = 0 }),
	}
}

func TestRelaysAreValidated(t *testing.T) {
	long, good := strings.Repeat("x", maxRelayReason+1), pack(t, "x")
	for _, c := range []Command{
		AcceptRelay{Timeout: 1}, AcceptRelay{Node: "x", Document: good, Timeout: 1}, AcceptRelay{Document: good},
		AcceptRelay{Document: good, Timeout: 1, Keep: MaxRelayKeep + 1}, AcceptRelay{Document: good, Timeout: 1, Tried: OutcomeRefused},
		AcceptRelay{Document: good, Timeout: 1, Source: strings.Repeat("x", maxRelaySource+1)}, AcceptRelay{Document: good, Timeout: 1, Source: "a b"},
		AcceptRelay{Document: blobs.Packed{Hash: blobs.Hash{1}, Data: []byte("plain")}, Timeout: 1},
		SettleRelay{}, SettleRelay{Outcome: OutcomeGiveUp + 1, Reason: "x"}, SettleRelay{Outcome: OutcomeLost},
		SettleRelay{Outcome: OutcomeLost, Reason: long}, SettleRelay{Outcome: OutcomeTaken, Keep: -1}, SettleRelay{Outcome: OutcomeTaken, Node: "x"},
	} {
		if _, err := Encode(Header{}, c); !errors.Is(err, Invalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
