package fsm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/fsm/table"
)

// lastSeq is the greatest sequence number of a millisecond.
const lastSeq = 1<<12 - 1

func TestRepeatedRequestGetsTheFirstResult(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	h := Header{Session: s, Request: r.request()}
	first := r.mustAs(h, settings.PutSetting{Key: "k", Value: "1"})
	r.must(settings.PutSetting{Key: "k", Value: "2"})
	again := r.mustAs(h, settings.PutSetting{Key: "k", Value: "1"})
	if !again.Repeated || !again.Retried || first.Repeated || again.Token != first.Token ||
		string(again.Value) != string(first.Value) {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if got, _ := r.view().Setting("k"); got.Value != "2" {
		t.Errorf("the repeat was executed: %+v", got)
	}
	if res := r.do(h, settings.DeleteSetting{Key: "k"}); res.Code != Conflict {
		t.Errorf("another command under the same ID: %v", res.Code)
	}
}

func TestRefusalsAreResultsToo(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	h := Header{Session: s, Request: r.request()}
	r.refused(NotFound, h, settings.DeleteSetting{Key: "k"})
	r.must(settings.PutSetting{Key: "k"})
	if res := r.do(h, settings.DeleteSetting{Key: "k"}); res.Code != NotFound || !res.Repeated {
		t.Errorf("the second time: %+v", res)
	}
}

func TestAnsweredResultsAreForgottenAndNeverExecutedAgain(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	h := Header{Session: s, Request: r.request()}
	r.mustAs(h, settings.PutSetting{Key: "k", Value: "1"})
	next := r.request()
	r.mustAs(Header{Session: s, Request: next, Answered: next}, Probe{})
	if got := r.view().Requests(); got != 1 {
		t.Errorf("%d results are kept", got)
	}
	if res := r.do(h, settings.PutSetting{Key: "k", Value: "again"}); res.Code != OutcomeUnknown {
		t.Errorf("a forgotten request: %v", res.Code)
	}
	// A late entry with a lower mark does not lower it.
	late := r.request()
	r.mustAs(Header{Session: s, Request: late, Answered: h.Request}, Probe{})
	if res := r.do(h, settings.PutSetting{Key: "k", Value: "again"}); res.Code != OutcomeUnknown {
		t.Errorf("after a late mark: %v", res.Code)
	}
	if got, _ := r.view().Setting("k"); got.Value != "1" {
		t.Errorf("setting %+v", got)
	}
}

func TestOldRequestsAreForgotten(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	h := Header{Session: s, Request: r.request(), Client: "c"}
	r.mustAs(h, settings.PutSetting{Key: "k", Value: "1"})
	renewFor := func(d time.Duration) {
		for ; d > 0; d -= 5 * time.Second {
			r.pass(min(d, 5*time.Second))
			r.must(membership.RenewSession{Session: s})
		}
	}
	renewFor(Retention)
	if res := r.do(h, settings.PutSetting{Key: "k"}); !res.Repeated {
		t.Errorf("at the end of retention: %+v", res)
	}
	renewFor(time.Millisecond)
	if res := r.do(h, settings.PutSetting{Key: "k"}); res.Code != OutcomeUnknown {
		t.Errorf("after retention: %+v", res)
	}
	if got := r.view().Requests(); got != 0 {
		t.Errorf("%d results are kept", got)
	}
	fresh := r.mustAs(Header{Session: s, Request: r.request(), Client: "c"}, settings.PutSetting{Key: "k", Value: "2"})
	if fresh.Repeated {
		t.Error("the client's ID outlived retention")
	}
	future := entry.MintRequestID(r.now.Add(Retention+time.Second), 0, [8]byte{})
	if res := r.do(Header{Session: s, Request: future}, Probe{}); res.Code != Invalid {
		t.Errorf("a request from the future: %v", res.Code)
	}
}

func TestEndedSessionExecutesNothing(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	h := Header{Session: s, Request: r.request()}
	r.mustAs(h, settings.PutSetting{Key: "k", Value: "1"})
	s2 := r.session("a")
	if got := r.view().Requests(); got != 0 {
		t.Errorf("%d results outlive their session", got)
	}
	if res := r.do(h, settings.PutSetting{Key: "k", Value: "2"}); res.Code != SessionEnded {
		t.Errorf("a request of an ended session: %v", res.Code)
	}
	if res := r.do(Header{Session: s}, settings.PutSetting{Key: "k", Value: "2"}); res.Code != SessionEnded {
		t.Errorf("a command of an ended session: %v", res.Code)
	}
	r.mustAs(Header{Session: s2, Request: h.Request}, settings.PutSetting{Key: "k", Value: "3"})
}

func TestClientIDJoinsTheFirstRequestOnAnyPeer(t *testing.T) {
	r := newRig(t)
	a, b := r.session("a"), r.session("b")
	first := r.request()
	want := r.mustAs(Header{Session: a, Request: first, Client: "cl"}, settings.PutSetting{Key: "k", Value: "1"})
	if res := r.mustAs(Header{Session: a, Request: first, Client: "cl"},
		settings.PutSetting{Key: "k", Value: "1"}); !res.Retried {
		t.Errorf("the first peer's own repeat: %+v", res)
	}
	second := Header{Session: b, Request: r.request(), Client: "cl"}
	got := r.mustAs(second, settings.PutSetting{Key: "k", Value: "1"})
	if !got.Repeated || got.Retried || got.Token != want.Token {
		t.Errorf("on another peer: %+v, want %+v", got, want)
	}
	// Neither the answer nor the end of the session makes it forgotten.
	mark := r.request()
	r.mustAs(Header{Session: a, Request: mark, Answered: mark}, Probe{})
	r.must(membership.EndSession{Session: a})
	if res := r.mustAs(Header{Session: b, Request: r.request(), Client: "cl"},
		settings.PutSetting{Key: "k", Value: "1"}); !res.Repeated {
		t.Error("forgotten with its session")
	}
	if res := r.do(
		Header{Session: b, Request: r.request(), Client: "cl"}, settings.DeleteSetting{Key: "k"}); res.Code != Conflict {
		t.Errorf("another command under the same client ID: %v", res.Code)
	}
	// The joining request has its own answer by now: it is never executed,
	// also when the first is forgotten and its own is not.
	if res := r.mustAs(second, settings.PutSetting{Key: "k", Value: "1"}); !res.Repeated || res.Retried {
		t.Errorf("the second request was executed, or is taken for the first: %+v", res)
	}
}

// fill puts so many results into the table that it is full.
func fill(requests *requests, s fencing.Token, now Time) {
	for i := requests.byID.Size(); i < MaxRequests; i++ {
		id := entry.MintRequestID(now, uint16(100+i%3000), [8]byte{byte(i >> 16), byte(i >> 8), byte(i)})
		requests.byID.Put(id[:], outcome{ID: id, Session: s, Kind: KindOf(Probe{}), Result: Result{Token: 1}})
		requests.bySession.Put(table.PairKey(s, id[:]...), table.None{})
	}
}

func TestFullTableRefusesAndDrains(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	h := Header{Session: s, Request: r.request()}
	r.mustAs(h, settings.PutSetting{Key: "k", Value: "1"})
	next := *r.state.now
	fill(&next.requests, s, r.now)
	full := &rig{t: t, state: &State{&next}, index: r.index, term: r.term, now: r.now, wall: r.wall, seq: 5000}
	apply := func(h Header, c Command) Result { // without the check of 200,000 records
		full.index++
		h.Time = full.now
		return full.state.Apply(Entry{Index: full.index, Term: 2, Data: encoded(t, h, c)})
	}
	late := entry.MintRequestID(r.now, lastSeq, [8]byte{0xff})
	if res := apply(Header{Session: s, Request: late}, settings.PutSetting{Key: "k", Value: "2"}); res.Code != TableFull {
		t.Errorf("a full table: %v", res.Code)
	}
	if res := apply(h, settings.PutSetting{Key: "k", Value: "1"}); !res.Repeated {
		t.Error("a full table forgot")
	}
	if res := apply(Header{}, settings.PutSetting{Key: "k", Value: "3"}); res.Code != OK {
		t.Errorf("a command without a request: %v", res.Code)
	}
	if res := apply(Header{Session: s, Request: late, Answered: late},
		settings.PutSetting{Key: "k", Value: "4"}); res.Code != OK {
		t.Errorf("a request that makes room: %v", res.Code)
	}
	if err := full.view().Check(); err != nil {
		t.Error(err)
	}
	if got := full.view().Requests(); got != 1 {
		t.Errorf("%d results are kept", got)
	}
}

// TestClientsAreCrowdedOutOfAFullTable: results that only a client's ID keeps make
// room for a peer's own, the oldest first; those that a session waits for do not.
func TestClientsAreCrowdedOutOfAFullTable(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	waits := Header{Session: s, Request: r.request()}
	r.mustAs(waits, settings.PutSetting{Key: "waits", Value: "1"})
	next := *r.state.now
	for i := next.requests.byID.Size(); i < MaxRequests; i++ {
		id := entry.MintRequestID(r.now, uint16(100+i%3000), [8]byte{byte(i >> 16), byte(i >> 8), byte(i)})
		next.requests.put(outcome{ID: id, Client: fmt.Sprint("program-", i), Kind: KindOf(leases.Grant{}),
			Result: Result{Token: 1}})
	}
	full := &rig{t: t, state: &State{&next}, index: r.index, term: r.term, now: r.now, wall: r.wall, seq: 5000}
	apply := func(h Header, c Command) Result { // without the check of 200,000 records
		full.index++
		h.Time = full.now
		return full.state.Apply(Entry{Index: full.index, Term: 2, Data: encoded(t, h, c)})
	}
	next.shared.Version = 1
	last := entry.MintRequestID(r.now, lastSeq, [8]byte{0xff})
	if res := apply(Header{Session: s, Request: last}, Probe{}); res.Code != TableFull {
		t.Errorf("in a cluster of which a member does not know it: %v", res.Code)
	}
	full.state.now.shared.Version = 2
	var oldest string
	for _, o := range full.state.now.requests.byID.All() {
		if o.Session.IsZero() {
			oldest = o.Client
			break
		}
	}
	if res := apply(Header{Session: s, Request: last}, Probe{}); res.Code != OK {
		t.Errorf("a peer's own request: %v", res.Code)
	}
	if full.state.now.requests.byClient.Has([]byte(oldest)) {
		t.Errorf("%s, the oldest, is kept", oldest)
	}
	if res := apply(waits, settings.PutSetting{Key: "waits", Value: "1"}); !res.Repeated {
		t.Error("what a session waits for was forgotten")
	}
	if got := full.view().Requests(); got != MaxRequests {
		t.Errorf("%d results are kept, not %d", got, MaxRequests)
	}
}

func TestRequestIDsRiseInTheOrderOfMinting(t *testing.T) {
	var last RequestID
	now := Time(time.Hour)
	for i := range 3 * lastSeq {
		if i%1000 == 0 {
			now = now.Add(-time.Second) // a view that is behind
		}
		next := entry.NextRequestID(last, now, [8]byte{byte(255 - i%256)})
		if !last.Less(next) {
			t.Fatalf("%v follows %v", next, last)
		}
		if err := next.Validate(); err != nil {
			t.Fatal(err)
		}
		last = next
	}
	if drift := last.Time().Sub(Time(time.Hour)); drift > 5*time.Millisecond {
		t.Errorf("IDs ran %v ahead", drift)
	}
	var back entry.RequestID
	if err := back.UnmarshalText([]byte(last.String())); err != nil || back != last {
		t.Errorf("%v reads back as %v, %v", last, back, err)
	}
	for _, bad := range []string{"", "x", "00000000-0000-0000-0000-000000000000", fmt.Sprintf("urn:uuid:%v", last)} {
		if err := new(entry.RequestID).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestRequestThatEndsItsOwnSessionLeavesNoResult(t *testing.T) {
	r := newRig(t)
	r.session("a")
	leaving := r.session("b")
	h := Header{Session: leaving, Request: r.request()}
	r.mustAs(h, membership.RemoveMember{ID: "b"}) // the rig checks the invariants
	if n := r.view().Requests(); n != 0 {
		t.Errorf("%d results wait for a session that is over", n)
	}
	if res := r.do(h, membership.RemoveMember{ID: "b"}); res.Code != SessionEnded {
		t.Errorf("its repeat: %v, want SessionEnded", res.Code)
	}
	again := r.session("b2")
	named := Header{Session: again, Request: r.request(), Client: "operator-1"}
	r.mustAs(named, membership.RemoveMember{ID: "b2"})
	other := Header{Session: r.session("a"), Request: r.request(), Client: "operator-1"}
	if res := r.do(other, membership.RemoveMember{ID: "b2"}); res.Code != OK || !res.Repeated {
		t.Errorf("the client's repeat through another peer: %v, repeated %v", res.Code, res.Repeated)
	}
}

// TestFullIsDecidedAnew: who was refused for want of room asks again under the same ID
// when there is some. The peer's own request stays decided: an entry of it that comes
// late does nothing.
func TestFullIsDecidedAnew(t *testing.T) {
	for version, anew := range map[int]bool{1: false, 2: true} {
		r := newRig(t)
		s := r.session("a")
		next := *r.state.now
		next.shared.Version = version
		for i := range 10_000 { // the most leases there may be
			name := fmt.Sprintf("free-%d", i)
			load(t, &next, 'e', leases.Lease{Name: name, Token: 1})
		}
		full := &rig{t: t, state: &State{&next}, index: r.index, term: r.term, now: r.now, wall: r.wall, seq: 5000}
		apply := func(h Header, c Command) Result { // without the check: no member has the older version
			full.index++
			h.Time = full.now
			return full.state.Apply(Entry{Index: full.index, Term: 2, Data: encoded(t, h, c)})
		}
		grant := leases.Grant{Name: "db", Holder: "one", TTL: time.Minute}
		first := Header{Session: s, Request: full.request(), Client: "program-1"}
		refused := apply(first, grant)
		if refused.Code != TableFull || strings.Contains(refused.Message, "forget") != anew {
			t.Errorf("version %d, no room: %v, %q", version, refused.Code, refused.Message)
		}
		if res := apply(Header{}, leases.Delete{Name: "free-7"}); res.Code != OK {
			t.Fatalf("make room: %v", res.Err())
		}
		if res := apply(first, grant); res.Code != TableFull || !res.Repeated || res.Message != refused.Message {
			t.Errorf("version %d, a late entry of the same request: %v, repeated %v", version, res.Code, res.Repeated)
		}
		again := Header{Session: s, Request: full.request(), Client: "program-1"}
		res := apply(again, grant)
		if got := res.Code == OK && !res.Repeated; got != anew {
			t.Errorf("decided-anew: version %d, the same again with room: %v, repeated %v, want anew: %v", version, res.Code,
				res.Repeated, anew)
		}
	}
}
