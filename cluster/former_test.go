package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// serveIn opens a port of a peer of an incarnation; refused hears what it refuses. No
// other process gets the port before the test ends: once closed it refuses.
func (f *fixture) serveIn(t *testing.T, peer string, incarnation uint64, h http.Handler, refused func(error)) *Port {
	t.Helper()
	end := f.end(t, pki.PeerIdentity(clusterID, peer, incarnation))
	end.Refused = refused
	port, err := NewPort(t.Context(), testenv.FreePort(t), NewAccess(end, Known{}, slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	if err := port.Serve(h, admission.NewController(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := port.Close(); err != nil {
			t.Error(err)
		}
	})
	return port
}

// What is heard of a former member: its host refuses the connection, or answers as
// of this incarnation. A peer of the earlier one does not count, and learns by being
// asked that it is superseded.
func TestAskingAFormerMember(t *testing.T) {
	f := newFixture(t)
	told := make(chan error, 1)
	old := f.serveIn(t, "h2", 1, http.NotFoundHandler(), func(err error) {
		select {
		case told <- err:
		default:
		}
	})
	newer := f.serveIn(t, "h3", 2, http.NotFoundHandler(), nil)
	rival := f.serveIn(t, "h9", 2, http.NotFoundHandler(), nil)
	newest := f.serveIn(t, "h8", 3, http.NotFoundHandler(), nil)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	var superseded error
	end := f.end(t, pki.PeerIdentity(clusterID, "h1", 2))
	end.Refused = func(err error) { superseded = err }
	founder := NewAccess(end, Known{}, slog.New(slog.DiscardHandler))
	data, err := fsm.Encode(fsm.Header{},
		membership.PutMember{Member: membership.Member{ID: "h3", Name: "h3", Address: "h3:7350", Version: fsm.Version}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.state.Apply(fsm.Entry{Index: f.View().Index() + 1, Term: 1, Data: data}).Err(); err != nil {
		t.Fatal(err)
	}
	founder.Follow(seen{view: f.View()}, nil, Own{})
	ask := func(at net.Addr) error {
		ctx, cancel := context.WithTimeout(t.Context(), testwait.Bound(testwait.Limit))
		defer cancel()
		return founder.AskFormer(ctx, membership.FormerMember{ID: "h2", Name: "h2", Address: at.String()})
	}
	if err := ask(old.Addr()); !errors.Is(err, ErrStillOld) {
		t.Errorf("former-answers: a peer of the earlier incarnation is heard: %v", err)
	}
	var inc *pki.IncarnationError
	select {
	case err := <-told:
		if !errors.As(err, &inc) || !inc.Superseded() {
			t.Errorf("former-is-told: it heard %v", err)
		}
	default:
		t.Error("former-is-told: a peer of the earlier incarnation was asked and did not learn of this one")
	}
	if err := ask(newer.Addr()); err != nil {
		t.Errorf("a peer of this incarnation: %v", err)
	}
	if err := ask(rival.Addr()); !errors.Is(err, ErrRival) {
		t.Errorf("former-answers: a peer of this incarnation that is no member is heard: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := founder.AskFormer(short, membership.FormerMember{Address: mute.Addr().String()}); err == nil {
		t.Error("a host that says nothing is heard")
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if err := ask(old.Addr()); err != nil {
		t.Errorf("a host that refuses the connection is not heard: %v", err)
	}
	if err := ask(newest.Addr()); !errors.As(err, &inc) || !inc.Superseded() || !errors.As(superseded, &inc) {
		t.Errorf("a peer of a higher incarnation: %v, and the founder's own end heard %v", err, superseded)
	}
}

// A former member whose name has several addresses is heard once each of them
// refuses: its peer may listen at the one that does not answer.
func TestAskingAFormerMemberAtAllAddresses(t *testing.T) {
	f := newFixture(t)
	old := f.serveIn(t, "h2", 1, http.NotFoundHandler(), nil)
	_, port, err := net.SplitHostPort(old.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	founder := NewAccess(f.end(t, pki.PeerIdentity(clusterID, "h1", 2)), Known{}, slog.New(slog.DiscardHandler))
	// 127.0.0.2 and 127.0.0.3 refuse at this port; no TCP connection leads to a
	// broadcast address.
	for name, test := range map[string]struct {
		addresses []string
		heard     bool
	}{
		"all refuse":                     {[]string{"127.0.0.2", "127.0.0.3"}, true},
		"the second does not answer":     {[]string{"127.0.0.2", "255.255.255.255"}, false},
		"the first does not answer":      {[]string{"255.255.255.255", "127.0.0.2"}, false},
		"an old peer is at the second":   {[]string{"127.0.0.2", "127.0.0.1"}, false},
		"the name has no address":        {nil, false},
		"the name has too many of them":  {make([]string, maxAddresses+1), false},
		"the name has as many as may be": {slices.Repeat([]string{"127.0.0.2"}, maxAddresses), true},
	} {
		founder.lookup = func(context.Context, string) ([]string, error) { return test.addresses, nil }
		err := founder.AskFormer(t.Context(),
			membership.FormerMember{ID: "h2", Name: "h2", Address: net.JoinHostPort("h2.example", port)})
		if (err == nil) != test.heard {
			t.Errorf("all-addresses-refuse: %s: %v", name, err)
		}
		s := Surveyor{CAs: []*x509.Certificate{f.ca.Certificate()}, lookup: founder.lookup}
		asked, err := s.Ask(t.Context(),
			[]membership.FormerMember{{ID: "h2", Address: net.JoinHostPort("h2.example", port), Gossip: "h2.example:1"}})
		if err != nil || (asked[0].Presence == Stopped) != test.heard {
			t.Errorf("all-addresses-refuse: %s: survey: %+v, %v", name, asked, err)
		}
	}
}

// A former member of which two histories name different addresses is asked at both.
func TestAskingAFormerMemberAtBothAddresses(t *testing.T) {
	f := newFixture(t)
	old := f.serveIn(t, "h2", 1, http.NotFoundHandler(), nil)
	founder := NewAccess(f.end(t, pki.PeerIdentity(clusterID, "h1", 2)), Known{}, slog.New(slog.DiscardHandler))
	free := testenv.FreePort(t)
	s := Surveyor{CAs: []*x509.Certificate{f.ca.Certificate()}}
	for _, m := range []membership.FormerMember{
		{ID: "h2", Name: "h2", Address: free, Second: old.Addr().String(), Gossip: free},
		{ID: "h2", Name: "h2", Address: old.Addr().String(), Second: free, Gossip: free},
	} {
		if err := founder.AskFormer(t.Context(), m); !errors.Is(err, ErrStillOld) {
			t.Errorf("both-addresses: %+v: %v", m, err)
		}
		if asked, err := s.Ask(t.Context(), []membership.FormerMember{m}); err != nil || asked[0].Presence != Running {
			t.Errorf("both-addresses: survey: %+v, %v", asked, err)
		}
	}
}

// formerAnswers answers for former members by their ID.
type formerAnswers struct {
	mu    sync.Mutex
	says  map[string]error
	count map[string]int
}

func (a *formerAnswers) AskFormer(_ context.Context, m membership.FormerMember) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count[m.ID]++
	return a.says[m.ID]
}

func (a *formerAnswers) set(id string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.says[id] = err
}

// heardLog is the log of a leadership.
type heardLog struct {
	mu    sync.Mutex
	do    *doer
	token func() fsm.Header
	heard []string
}

func (l *heardLog) Propose(_ context.Context, c fsm.Command) (fsm.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, c.(membership.FormerHeard).ID)
	l.do.index++
	data, err := fsm.Encode(l.token(), c)
	if err != nil {
		return fsm.Result{}, err
	}
	return l.do.f.state.Apply(fsm.Entry{Index: l.do.index + 1, Term: 1, Data: data}), nil
}

// foundedAnew makes h1 the only member of the fixture, h2 and h3 former members, and
// h4 lost.
func (f *fixture) foundedAnew(t *testing.T) *doer {
	t.Helper()
	do := &doer{f: f}
	for _, id := range []string{"h2", "h3", "h4"} {
		m := membership.Member{ID: id, Name: id, Address: id + ".example:1", Gossip: id + ".example:2", Version: fsm.Version}
		if res, err := do.Do(t.Context(), "", membership.PutMember{Member: m}); err != nil || res.Err() != nil {
			t.Fatal(err, res.Err())
		}
	}
	refound := fsm.Refound{Index: do.index + 1, NewIncarnation: true, Survivor: "h1",
		Former: f.state.View().MayRun("h1")[:2]}
	if err := f.state.Refound(refound); err != nil {
		t.Fatal(err)
	}
	return do
}

// The duty records who is heard once, and goes on asking: the old peer may start.
func TestFormersAsksUntilAllAreHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		do := f.foundedAnew(t)
		res, err := do.Do(t.Context(), "", fsm.Lead{Peer: "h1", Boot: "b", Version: fsm.Version})
		if err != nil || res.Err() != nil {
			t.Fatal(err, res.Err())
		}
		silent := errors.New("no route to host")
		a := &formerAnswers{says: map[string]error{"h2": silent, "h3": ErrStillOld}, count: map[string]int{}}
		log := &heardLog{do: do, token: func() fsm.Header { return fsm.Header{Token: res.Token} }}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := NewFormers(f.state.View, a, slog.New(slog.DiscardHandler)).Run(ctx, log); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(5 * formerEvery) // in a bubble
		synctest.Wait()
		if len(log.heard) != 0 || f.state.View().AwaitedFormers() == "" {
			t.Errorf("former-answers: %v heard, awaited are %q", log.heard, f.state.View().AwaitedFormers())
		}
		a.set("h2", nil)
		time.Sleep(3 * formerEvery)
		a.set("h3", nil)
		time.Sleep(5 * formerEvery)
		synctest.Wait()
		if got := strings.Join(log.heard, " "); got != "h2 h3" || f.state.View().AwaitedFormers() != "" {
			t.Errorf("recorded %q, awaited are %q", got, f.state.View().AwaitedFormers())
		}
		for _, runs := range []error{ErrStillOld, ErrRival} {
			a.set("h3", runs)
			time.Sleep(2 * formerEvery)
			synctest.Wait()
			if got := f.state.View().AwaitedFormers(); !strings.Contains(got, "h3") {
				t.Errorf("running-is-not-heard: %v, awaited are %q", runs, got)
			}
			a.set("h3", silent)
			time.Sleep(2 * formerEvery)
			a.set("h3", nil)
			time.Sleep(2 * formerEvery)
			synctest.Wait()
			if got := f.state.View().AwaitedFormers(); got != "" {
				t.Errorf("h3 stopped, and awaited are %q", got)
			}
		}
		a.set("h2", silent)
		time.Sleep(2 * formerEvery)
		synctest.Wait()
		if got := f.state.View().AwaitedFormers(); got != "" {
			t.Errorf("a host that was heard and is silent is awaited: %q", got)
		}
		if a.count["h2"] < 12 {
			t.Errorf("h2 was asked %d times: not any more once it was heard", a.count["h2"])
		}
		stop()
		running.Wait()
	})
}

// A peer of the earlier incarnation learns by gossip as well, if the founder takes
// streams from its address; neither takes the other for a member.
func TestGossipTellsOfAHigherIncarnation(t *testing.T) {
	open := func(id string, incarnation uint64, hosts ...string) (*Gossip, chan uint64) {
		t.Helper()
		told := make(chan uint64, 8)
		o := gossipOptions(id, testenv.FreePort(t), "", 1)
		o.Incarnation, o.Hosts = incarnation, func() []string { return hosts }
		o.Newer = func(theirs uint64) {
			select {
			case told <- theirs:
			default:
			}
		}
		g, err := NewGossip(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Drop() })
		return g, told
	}
	old, told := open("h2", 1, "127.0.0.1")
	founder, _ := open("h1", 2, "127.0.0.1") // the address of a former member
	if _, err := old.list.Join([]string{founder.list.LocalNode().Address()}); err == nil {
		t.Error("gossip-refuses-incarnations: the earlier incarnation joined the later one")
	}
	select {
	case theirs := <-told:
		if theirs != 2 {
			t.Errorf("gossip-tells-incarnation: it heard of incarnation %d", theirs)
		}
	default:
		t.Error("gossip-tells-incarnation: a peer of the earlier incarnation spoke with a later one and was not told")
	}
	if n := founder.list.NumMembers(); n != 1 {
		t.Errorf("gossip-refuses-incarnations: the founder counts %d members", n)
	}
}
