package leader

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
)

// electorate is a log whose transfers end as the test says.
type electorate struct {
	t       *testing.T
	state   *fsm.State
	index   uint64
	servers []raftstore.Server
	asked   []string
	may     func(to string) error
	answer  func(ctx context.Context, to string) error
}

func newElectorate(t *testing.T, others ...string) *electorate {
	t.Helper()
	self := membership.Member{ID: "h1", Name: "h1", Address: "h1:7350", Version: fsm.Version}
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "5f0c1f3e-0000-4000-8000-000000000001", CACert: []byte("-----BEGIN CERTIFICATE-----"),
		CAKey: []byte("-----BEGIN PRIVATE KEY-----"), GossipKey: make([]byte, 32), Member: self,
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	e := &electorate{t: t, state: state, index: 1, servers: []raftstore.Server{{ID: "h1", Voter: true}}}
	e.may = func(string) error { return nil }
	e.answer = func(context.Context, string) error { return nil }
	for _, id := range others {
		e.do(membership.PutMember{Member: membership.Member{ID: id, Name: id, Address: id + ":7350", Version: fsm.Version}})
		e.servers = append(e.servers, raftstore.Server{ID: id, Voter: true})
	}
	return e
}

func (e *electorate) do(c fsm.Command) fsm.Result {
	e.t.Helper()
	data, err := fsm.Encode(fsm.Header{}, c)
	if err != nil {
		e.t.Fatal(err)
	}
	e.index++
	res := e.state.Apply(fsm.Entry{Index: e.index, Term: 1, Data: data})
	if err := res.Err(); err != nil {
		e.t.Fatalf("%T: %v", c, err)
	}
	return res
}

// session opens one of a peer that has applied an index.
func (e *electorate) session(peer string, applied uint64) fencing.Token {
	e.t.Helper()
	id := e.do(membership.OpenSession{Peer: peer, Boot: "b", Version: fsm.Version, WallMillis: 1}).Token
	e.do(membership.RenewSession{Session: id, Applied: applied, WallMillis: 1})
	return id
}

func (e *electorate) Servers() []raftstore.Server { return e.servers }
func (e *electorate) View() fsm.View              { return e.state.View() }

func (e *electorate) MayTransfer(to raftstore.Server) error { return e.may(to.ID) }

func (e *electorate) Transfer(ctx context.Context, to raftstore.Server) error {
	e.asked = append(e.asked, to.ID)
	return e.answer(ctx, to.ID)
}

// Leadership is handed to a voter with a live session that does not refuse. What
// an operator or the peer itself decided, and a peer that is silent, is left out.
func TestLeadershipGoesToALiveVoter(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(e *electorate)
		asked   []string
	}{
		"the most advanced first": {func(e *electorate) { e.session("h2", 5); e.session("h3", 9) }, []string{"h3", "h2"}},
		"silent":                  {func(e *electorate) { e.session("h3", 1) }, []string{"h3"}},
		"all are silent":          {func(*electorate) {}, nil},
		"refuses": {func(e *electorate) {
			e.do(membership.RenewSession{Session: e.session("h2", 9), Applied: 9, WallMillis: 1, Refuses: "its disk hung"})
			e.session("h3", 1)
		}, []string{"h3"}},
		"in maintenance": {func(e *electorate) {
			e.session("h2", 9)
			e.session("h3", 1)
			e.do(membership.Exclude{Peer: "h2", From: membership.FromLeading, On: true})
		}, []string{"h3"}},
		"no voter": {func(e *electorate) {
			e.session("h2", 9)
			e.session("h3", 1)
			e.servers[1].Voter = false
		}, []string{"h3"}},
		"itself": {func(e *electorate) { e.session("h1", 9) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newElectorate(t, "h2", "h3")
			c.prepare(e)
			if has := HasSuccessor(e, "h1"); has != (len(c.asked) > 0) {
				t.Errorf("live-successor: HasSuccessor is %t", has)
			}
			e.answer = func(context.Context, string) error { return errors.New("it did not take it") }
			if err := StepDown(t.Context(), e, "h1"); err == nil {
				t.Error("nobody took leadership, and the step-down succeeded")
			}
			if !slices.Equal(e.asked, c.asked) {
				t.Errorf("live-successor: %q were asked, want %q", e.asked, c.asked)
			}
		})
	}
}

// TestMayHandOn: the question finds the voter that may be asked, and asks for no transfer.
func TestMayHandOn(t *testing.T) {
	stuck, silent := errors.New("h2 is stuck"), errors.New("h3 is silent")
	for name, c := range map[string]struct {
		sessions, to string
		refused      map[string]error
		want         []error
	}{
		"the best":           {"h2 h3", "", nil, nil},
		"another":            {"h2 h3", "", map[string]error{"h2": stuck}, nil},
		"none is eligible":   {"", "", nil, []error{errNoSuccessor}},
		"none may be asked":  {"h2 h3", "", map[string]error{"h2": stuck, "h3": silent}, []error{stuck, silent}},
		"the named":          {"h3", "h2", map[string]error{"h3": silent}, nil},
		"the named is stuck": {"h2 h3", "h2", map[string]error{"h2": stuck}, []error{stuck}},
	} {
		e := newElectorate(t, "h2", "h3")
		for _, id := range strings.Fields(c.sessions) {
			e.session(id, 9)
		}
		e.may = func(to string) error { return c.refused[to] }
		err := MayHandOn(e, "h1", raftstore.Server{ID: c.to})
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		if (err == nil) != (len(c.want) == 0) || len(e.asked) > 0 {
			t.Errorf("%s: %v, and %q were asked", name, err, e.asked)
		}
	}
}

// A voter that may not be asked costs none of the tries.
func TestTriesAreOfVotersThatMayBeAsked(t *testing.T) {
	e := newElectorate(t, "h2", "h3", "h4", "h5")
	for i, id := range []string{"h2", "h3", "h4", "h5"} {
		e.session(id, uint64(9-i))
	}
	e.may = func(to string) error {
		if to == "h5" {
			return nil
		}
		return errors.New("it is stuck")
	}
	if err := StepDown(t.Context(), e, "h1"); err != nil || !slices.Equal(e.asked, []string{"h5"}) {
		t.Errorf("tries-of-willing-voters: %v; asked were %q", err, e.asked)
	}
}

// Each transfer is bounded, as is their number; the first that is taken is the last.
func TestTransfersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		others := []string{"h2", "h3", "h4", "h5"}
		e := newElectorate(t, others...)
		for i, id := range others {
			e.session(id, uint64(9-i))
		}
		e.answer = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		err := StepDown(t.Context(), e, "h1")
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "after 3 tries") ||
			took != transferTries*transferLimit {
			t.Errorf("bounded: %v after %v", err, took)
		}
		if want := others[:transferTries]; !slices.Equal(e.asked, want) {
			t.Errorf("bounded: %q were asked, want %q", e.asked, want)
		}
		e.asked = nil
		e.answer = func(_ context.Context, to string) error {
			if to == "h2" {
				return errors.New("it did not take it")
			}
			return nil
		}
		if err := StepDown(t.Context(), e, "h1"); err != nil || !slices.Equal(e.asked, []string{"h2", "h3"}) {
			t.Errorf("%v after %q were asked", err, e.asked)
		}
	})
}
