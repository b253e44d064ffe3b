package haconfig

import (
	"context"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/raftstore/leader"
	"github.com/trivet-ha/trivet/test/testenv"
)

// peersOf are peers with a CA and their addresses.
type peersOf struct {
	ca        string
	addresses []string
}

// CA implements Peers.
func (p peersOf) CA() []byte { return []byte(p.ca) }

// Addresses implements Peers.
func (p peersOf) Addresses() []string { return p.addresses }

// tenure is leadership that may have ended.
type tenure struct{ over error }

// Token implements leader.Authority.
func (tenure) Token() fencing.Token { return 1 }

// Propose implements leader.Authority.
func (tenure) Propose(context.Context, fsm.Command) (fsm.Result, error) {
	return fsm.Result{}, errors.New("nothing is proposed here")
}

// Confirm implements leader.Authority.
func (r tenure) Confirm(context.Context, time.Time) error { return r.over }

// Succeeds implements leader.Authority.
func (tenure) Succeeds(uint64, uint64) (time.Time, bool) { return time.Time{}, false }

// Configured implements leader.Authority.
func (tenure) Configured() uint64 { return 0 }

// kubeSite is what the duties keep, in memory.
type kubeSite struct {
	registration Registration
	endpoints    Endpoints
	puts, drops  int
	alive        map[string]error // by address with port
}

// Registration implements Registry.
func (k *kubeSite) Registration(context.Context, string) (Registration, error) {
	return k.registration, nil
}

// PutBundle implements Registry.
func (k *kubeSite) PutBundle(_ context.Context, r Registration, bundle []byte) error {
	k.puts++
	for i := range r.Bundles {
		k.registration.Bundles[i] = bundle
	}
	return nil
}

// Endpoints implements Slices.
func (k *kubeSite) Endpoints(context.Context, string, string) (Endpoints, error) {
	return k.endpoints, nil
}

// PutEndpoints implements Slices.
func (k *kubeSite) PutEndpoints(_ context.Context, e Endpoints) error {
	if e.Version != k.endpoints.Version || e.Version != "" && e.Family != k.endpoints.Family {
		return errors.New("the API server refuses another version or family than there is")
	}
	k.puts++
	e.Version += "x"
	k.endpoints = e
	return nil
}

// DropEndpoints implements Slices.
func (k *kubeSite) DropEndpoints(_ context.Context, e Endpoints) error {
	if e.Version != k.endpoints.Version {
		return errors.New("another version is deleted than there is")
	}
	k.drops++
	k.endpoints = Endpoints{Namespace: e.Namespace, Service: e.Service}
	return nil
}

// Probe implements Prober.
func (k *kubeSite) Probe(_ context.Context, address string) error { return k.alive[address] }

// TestBundle puts the CA in once, and again when somebody takes it out, under proof
// of leadership alone.
func TestBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kubeSite{registration: Registration{Name: "r", Version: "1", Bundles: [][]byte{nil, []byte("old")},
			Paths: []string{PathMutate, "/proxy" + ReviewPath("here")}}}
		keeper := NewKeeper(KeeperOptions{Cluster: "here", Alone: true, Peers: peersOf{ca: "CA"}, Registry: k,
			Registration: "r", Logger: slog.New(slog.DiscardHandler)})
		run := func(r tenure, d time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			if err := keeper.Run(ctx, r); err != nil {
				t.Error(err)
			}
		}
		run(tenure{over: errors.New("another leads")}, time.Minute)
		if k.puts != 0 {
			t.Error("written without proof of leadership")
		}
		run(tenure{}, time.Minute)
		if k.puts != 1 || string(k.registration.Bundles[1]) != "CA" || string(k.registration.Bundles[0]) != "CA" {
			t.Errorf("%d writes: %q", k.puts, k.registration.Bundles)
		}
		k.registration.Bundles[0] = []byte("another")
		run(tenure{}, time.Minute)
		if k.puts != 2 {
			t.Errorf("%d writes after somebody else's", k.puts)
		}
		k.registration = Registration{Name: "r"}
		run(tenure{}, time.Minute)
		if k.puts != 2 {
			t.Error("written where there is none")
		}
		if err := keeper.registration(t.Context(), proven(tenure{})); err == nil ||
			!strings.Contains(err.Error(), "haconfig manifest --cluster here") {
			t.Errorf("registration-gone: it was there, and nothing is said: %v", err)
		}
		if err := NewKeeper(keeper.o).registration(t.Context(), proven(tenure{})); err != nil {
			t.Errorf("registration-gone: there was none: %v", err)
		}
	})
}

// TestEndpointsFollowThePeers looks who is in the Service.
func TestEndpointsFollowThePeers(t *testing.T) {
	silent := errors.New("no answer")
	k := &kubeSite{alive: map[string]error{}}
	r := newRoll(KeeperOptions{Slices: k, Endpoints: Endpoints{Namespace: "n", Service: "s", Port: 9443}, Prober: k,
		Logger: slog.New(slog.DiscardHandler),
		Peers:  peersOf{addresses: []string{"192.0.2.3:1", "192.0.2.2:1", "192.0.2.1:1"}}})
	write := proven(tenure{})
	round := func(when string, puts int, want ...string) {
		t.Helper()
		if err := r.probePeers(t.Context(), write); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if k.puts != puts || !slices.Equal(k.endpoints.Addresses, want) || k.endpoints.Port != 9443 {
			t.Errorf("%s: %d writes, %+v", when, k.puts, k.endpoints)
		}
	}
	all := []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}
	round("at first", 1, all...)
	round("nothing has changed", 1, all...)
	k.alive["192.0.2.2:9443"] = ErrRefused
	round("connection refused", 2, "192.0.2.1", "192.0.2.3")
	k.alive["192.0.2.3:9443"] = silent
	round("one is silent", 2, "192.0.2.1", "192.0.2.3")
	round("and again", 3, "192.0.2.1")
	k.alive = map[string]error{}
	round("all are back", 4, all...)
	k.endpoints.Addresses = []string{"198.51.100.1"} // somebody else's
	for range reread {
		if err := r.probePeers(t.Context(), write); err != nil {
			t.Fatal(err)
		}
	}
	round("another client wrote it", 5, all...)
	k.alive = map[string]error{"192.0.2.1:9443": ErrRefused, "192.0.2.2:9443": ErrRefused, "192.0.2.3:9443": silent}
	_ = r.probePeers(t.Context(), write) // the last one is only silent
	if err := r.probePeers(t.Context(), write); err == nil || len(k.endpoints.Addresses) == 0 {
		t.Errorf("none answers: %+v %v", k.endpoints, err)
	}
	k.alive = map[string]error{"192.0.2.1:9443": ErrRefused}
	k.puts = 0
	r.last = nil
	if err := r.probePeers(t.Context(), proven(tenure{over: errors.New("another leads")})); err == nil || k.puts != 0 {
		t.Errorf("written without proof of leadership: %v", err)
	}
}

// A living peer to which the Service cannot lead, by a name, another version of IP or an address
// that no other host reaches, is told for as long as that is so, while the others are published.
func TestPeersLeftOutOfTheServiceAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kubeSite{alive: map[string]error{}}
		keeper := NewKeeper(KeeperOptions{Cluster: "here", Alone: true, Registry: k, Registration: "r",
			Peers: peersOf{ca: "CA", addresses: []string{"h1.example:7350", "[::ffff:192.0.2.2]:7350", "[2001:db8::3]:7350",
				"127.0.0.1:7350", "[fe80::5%eth0]:7350"}},
			Slices: k, Endpoints: Endpoints{Namespace: "n", Service: "s", Port: 9443}, Prober: k,
			Logger: slog.New(slog.DiscardHandler)})
		look := func(when string, says ...string) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- keeper.Run(ctx, tenure{}) }()
			time.Sleep(10 * time.Second) // in a bubble
			fault := keeper.Faults()["endpoints"]
			for _, word := range append(says, "h1.example:7350 is left out", "[2001:db8::3]:7350 is left out",
				"127.0.0.1:7350 is left out", "[fe80::5%eth0]:7350 is left out") {
				if !strings.Contains(fault, word) {
					t.Errorf("left-out-untold: %s: %q is not in %q", when, word, fault)
				}
			}
			if !slices.Equal(k.endpoints.Addresses, []string{"192.0.2.2"}) {
				t.Errorf("left-out-stops-others: %s: %v", when, k.endpoints)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		look("all live")
		k.alive["192.0.2.2:9443"] = ErrRefused
		look("the only one that is published is dead", "no webhook answers at 192.0.2.2")
	})
}

// The version of IP of an EndpointSlice, which an API server lets no client change, stays while a
// peer has such an address, whatever comes next to it; when none has, the slice is made again.
func TestTheFamilyOfTheServiceChangesWithAllPeers(t *testing.T) {
	k := &kubeSite{alive: map[string]error{}}
	round := func(when string, drops int, family string, told bool, addresses, want []string) {
		t.Helper()
		r := newRoll(KeeperOptions{Slices: k, Endpoints: Endpoints{Namespace: "n", Service: "s", Port: 9443}, Prober: k,
			Logger: slog.New(slog.DiscardHandler), Peers: peersOf{addresses: addresses}})
		err := r.probePeers(t.Context(), proven(tenure{}))
		if (err != nil) != told || k.drops != drops || k.endpoints.Family != family ||
			!slices.Equal(k.endpoints.Addresses, want) {
			t.Errorf("family-of-the-slice: %s: %d drops, %+v, %v", when, k.drops, k.endpoints, err)
		}
	}
	round("new", 0, IPv6, false, []string{"[2001:db8::1]:1"}, []string{"2001:db8::1"})
	round("one of IPv4 comes", 0, IPv6, true, []string{"[2001:db8::1]:1", "192.0.2.2:1"}, []string{"2001:db8::1"})
	round("none of IPv6 is left", 1, IPv4, false, []string{"192.0.2.2:1"}, []string{"192.0.2.2"})
}

// TestProbe asks real servers.
func TestProbe(t *testing.T) {
	s := &site{}
	h, _ := handler(s, conventions)
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.StartTLS()
	address := strings.TrimPrefix(server.URL, "https://")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	p := NewHTTPProber(peersOf{ca: string(ca)}, "here")
	defer p.Close()
	if err := p.Probe(t.Context(), address); err != nil {
		t.Errorf("it answers: %v", err)
	}
	s.err = errors.New("silent")
	if err := p.Probe(t.Context(), address); err == nil || errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "silent") {
		t.Errorf("it cannot answer: %v", err)
	}
	other := NewHTTPProber(peersOf{ca: "none"}, "here")
	if err := other.Probe(t.Context(), address); err == nil {
		t.Error("trusted without a CA")
	}
	server.Close()
	if err := p.Probe(t.Context(), testenv.RefusingAddress(t)); !errors.Is(err, ErrRefused) {
		t.Errorf("connection refused: %v", err)
	}
}

// TestFaults are known while they last, and as long as this peer leads.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fault atomic.Pointer[string]
		chore := func(leader.Authority) Chore {
			return Chore{"something", time.Second, func(context.Context, Write) error {
				if text := fault.Load(); text != nil {
					return errors.New(*text)
				}
				return nil
			}}
		}
		keeper := NewKeeper(KeeperOptions{Peers: peersOf{}, Registry: &kubeSite{},
			More: []func(leader.Authority) Chore{chore}, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- keeper.Run(ctx, tenure{}) }()
		want := func(when, text string) {
			t.Helper()
			time.Sleep(2 * time.Second) // in a bubble
			if got := keeper.Faults()["something"]; got != text {
				t.Errorf("%s: %q", when, got)
			}
		}
		want("at first", "")
		for _, text := range []string{"away", "forbidden"} {
			fault.Store(&text)
			want(text, text)
		}
		fault.Store(nil)
		want("again", "")
		text := "away"
		fault.Store(&text)
		want("away", "away")
		cancel()
		if err := <-ended; err != nil || len(keeper.Faults()) != 0 {
			t.Errorf("another leads: %v %v", keeper.Faults(), err)
		}
	})
}

// TestRegistrationOfAnotherCluster gets no CA, and loses the one that it has.
func TestRegistrationOfAnotherCluster(t *testing.T) {
	k := &kubeSite{registration: Registration{Name: "r", Version: "1", Bundles: [][]byte{nil},
		Paths: []string{ReviewPath("seed")}}}
	keeper := NewKeeper(KeeperOptions{Cluster: "shoot", Peers: peersOf{ca: "CA"}, Registry: k, Registration: "r",
		Logger: slog.New(slog.DiscardHandler)})
	round := func(when string, puts int, bundle string, fails bool) {
		t.Helper()
		err := keeper.registration(t.Context(), proven(tenure{}))
		if (err != nil) != fails || fails && !strings.Contains(err.Error(), "haconfig manifest --cluster shoot") ||
			k.puts != puts || string(k.registration.Bundles[0]) != bundle {
			t.Errorf("ca-for-another-cluster: %s: %d writes, CA %q, %v", when, k.puts, k.registration.Bundles[0], err)
		}
	}
	round("of the seed", 0, "", true)
	k.registration.Paths[0] = PathMutate
	round("of no cluster", 0, "", true)
	k.registration.Paths[0] = ReviewPath("shoot")
	round("its own", 1, "CA", false)
	k.registration.Paths[0] = ReviewPath("seed")
	round("of the seed, with a CA", 2, "", true)
	k.registration.Bundles[0] = []byte("an operator's")
	round("of the seed, with a CA that is not ours", 2, "an operator's", true)
}

// TestRegistrationAtAnOldPlace is told, and left as it is: API servers ask where no peer answers. What an
// operator has put in front of the peers is no such place.
func TestRegistrationAtAnOldPlace(t *testing.T) {
	const floating, service = "192.0.2.11:9443", "trivet/trivet-haconfig"
	path := ReviewPath("prod")
	for name, c := range map[string]struct {
		own, asks, path string
		answers, told   bool
	}{
		"its own, unanswered":                   {floating, floating, path, false, false},
		"the floating IP of before":             {floating, "192.0.2.10:9443", path, false, true},
		"as above, while one has it still":      {floating, "192.0.2.10:9443", path, true, false},
		"the path without a cluster":            {floating, "192.0.2.10:9443", PathMutate, false, true},
		"another port":                          {floating, "192.0.2.11:9444", path, false, true},
		"the floating IP, with endpoints":       {service, floating, path, true, false},
		"the Service, with the floating IP":     {floating, service, path, false, true},
		"another Service":                       {service, "trivet/webhook", path, false, true},
		"a Service that the certificates name":  {service, "web/front", path, false, false},
		"a name":                                {floating, "webhook.example:443", path, false, false},
		"a balancer that the certificates name": {floating, "198.51.100.7:443", path, false, false},
		"a proxy with a prefix":                 {floating, "198.51.100.8:443", "/proxy" + path, false, false},
		"nothing is known of the floating IP":   {"", "192.0.2.10:9443", path, false, false},
	} {
		k := &kubeSite{alive: map[string]error{}, registration: Registration{Name: "r", Version: "1",
			Bundles: [][]byte{[]byte("CA")}, Paths: []string{c.path}, Places: []string{c.asks}}}
		if !c.answers {
			k.alive[c.asks] = ErrRefused
		}
		keeper := NewKeeper(KeeperOptions{Cluster: "prod", Alone: true, Peers: peersOf{ca: "CA"}, Registry: k, Prober: k,
			Registration: "r", Place: c.own, Names: []string{"front.web.svc", "198.51.100.7"},
			Logger: slog.New(slog.DiscardHandler)})
		err := keeper.registration(t.Context(), proven(tenure{}))
		if (err != nil) != c.told || k.puts != 0 {
			t.Errorf("registration-leads-elsewhere: %s: %d writes, %v", name, k.puts, err)
		}
		if c.told && err != nil && (!strings.Contains(err.Error(), c.asks+",") || !strings.Contains(err.Error(), c.own) ||
			!strings.Contains(err.Error(), "haconfig manifest --cluster prod")) {
			t.Errorf("registration-leads-elsewhere: %s: not said what to do: %v", name, err)
		}
	}
}

// TestCensusOfAnEarlierLeadership counts no more, and comes late.
func TestCensusOfAnEarlierLeadership(t *testing.T) {
	c := NewCensus("a", "b")
	c.keepUIDs("a", 1, map[string]bool{"x": true})
	c.keepUIDs("b", 1, nil)
	if c.isGone(1, "x") || !c.isGone(1, "y") {
		t.Error("census: of one leadership")
	}
	c.keepUIDs("a", 2, nil)
	c.keepUIDs("b", 1, nil) // late
	if c.isGone(1, "y") || c.isGone(2, "y") {
		t.Error("census-of-another-leadership: a namespace is gone though not all were listed")
	}
	c.keepUIDs("b", 2, nil)
	if !c.isGone(2, "x") || c.clusters[0] != "a" {
		t.Error("census: all are listed")
	}
	if c.isGone(1, "x") || c.isGone(3, "x") {
		t.Error("census-token: another leadership than the one that listed is told that a namespace is gone")
	}
}
