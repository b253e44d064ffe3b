package failover

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/test/testenv"
)

// quiet is where the test servers log.
func quiet(s *httptest.Server) *httptest.Server {
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	return s
}

func TestKubelets(t *testing.T) {
	answer := func(code int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
	}
	start := func(s *httptest.Server, https bool) string {
		if quiet(s); https {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	wantsCert := httptest.NewUnstartedServer(answer(http.StatusOK))
	wantsCert.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // its kernel takes the connection, and that is all
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hangs.Close() })
	for _, c := range []struct {
		name, target string
		want         Heard
	}{
		{"ok", start(httptest.NewUnstartedServer(answer(http.StatusOK)), true), HeardAlive},
		{"not allowed", start(httptest.NewUnstartedServer(answer(http.StatusUnauthorized)), true), HeardAlive},
		{"sick", start(httptest.NewUnstartedServer(answer(http.StatusInternalServerError)), true), HeardAlive},
		{"sends elsewhere", start(httptest.NewUnstartedServer(http.RedirectHandler("https://192.0.2.1/", http.StatusFound)),
			true), HeardAlive},
		{"plain HTTP", start(httptest.NewUnstartedServer(answer(http.StatusOK)), false), HeardAlive},
		{"a TLS alert", start(wantsCert, true), HeardAlive},
		{"refused", testenv.RefusingAddress(t), HeardAlive},
		{"hangs", hangs.Addr().String(), HeardKernel},
		{"no address", "not an address:1", HeardOwnFault},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit := 10 * time.Second
			if c.want == HeardKernel {
				limit = 200 * time.Millisecond
			}
			k := NewKubelets(limit)
			defer k.Close()
			if h := k.Knock(t.Context(), c.target); h != c.want {
				t.Errorf("heard %d, want %d", h, c.want)
			}
		})
	}
}

func TestKubeletsKeepConnections(t *testing.T) {
	var mu sync.Mutex
	opened := 0
	s := quiet(httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if state == http.StateNew {
			opened++
		}
	}
	s.StartTLS()
	defer s.Close()
	k := NewKubelets(10 * time.Second)
	defer k.Close()
	for range 20 {
		if h := k.Knock(t.Context(), s.Listener.Addr().String()); h != HeardAlive {
			t.Fatalf("heard %d", h)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if opened != 1 {
		t.Errorf("%d connections for 20 questions", opened)
	}
}

func TestHeard(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Heard
	}{
		{context.DeadlineExceeded, HeardNothing},
		{&net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}, HeardNothing},
		{&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, HeardNothing},
		{&net.OpError{Op: "dial", Err: syscall.ENETUNREACH}, HeardOwnFault},
		{&net.OpError{Op: "dial", Err: syscall.EMFILE}, HeardOwnFault},
		{&net.DNSError{IsTimeout: true}, HeardOwnFault},
		{context.Canceled, HeardOwnFault},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, HeardAlive},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, HeardAlive},
		{io.EOF, HeardAlive},
		{errors.New("malformed HTTP response"), HeardAlive},
	} {
		if h := isAnswer(fmt.Errorf("get: %w", c.err)); h != c.want {
			t.Errorf("%v: heard %d, want %d", c.err, h, c.want)
		}
	}
}

// script hears what it is told to, and counts how many ask at once.
type script struct {
	mu         sync.Mutex
	says       map[string]Heard
	asked      map[string]int
	moments    map[time.Time]int // at which kubelets are asked, and how many
	now, atMax int
	takes      time.Duration
	hangs      map[string]bool // those that say nothing for as long as they are asked
}

// Knock implements KubeletProber.
func (s *script) Knock(ctx context.Context, target string) Heard {
	s.mu.Lock()
	s.asked[target]++
	s.moments[time.Now()]++
	s.now++
	s.atMax = max(s.atMax, s.now)
	h, takes := s.says[target], s.takes
	if s.hangs[target] {
		takes = time.Hour // ctx ends it
	}
	s.mu.Unlock()
	rest(ctx, takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	return h
}

func (s *script) say(h Heard, targets ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range targets {
		s.says[t] = h
	}
}

// probing runs one peer's prober against a script in a log with n kube nodes.
func probing(t *testing.T, n int, s *script) (*court, *courtPeer) {
	t.Helper()
	s.says, s.asked, s.moments = make(map[string]Heard), make(map[string]int), make(map[time.Time]int)
	c := newCourt(t, 0, rand.New(rand.NewPCG(1, 1)))
	w := Watched{Synced: true}
	for i := range n {
		node := modelNodeNamed(i)
		w.Nodes = append(w.Nodes, WatchedNode{Node: node})
		s.say(HeardAlive, node.Kubelet)
	}
	v, _ := c.log.Changed()
	if err := (Recorder{Cluster: courtCluster, Wall: time.Now}).Record(t.Context(), c.log, v, w); err != nil {
		t.Fatal(err)
	}
	p := c.peers[0]
	p.prober.o.KubeletProber = s
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { c.renew(ctx) })
	work.Go(func() { p.prober.Run(ctx) })
	t.Cleanup(func() { cancel(); work.Wait() })
	return c, p
}

func votesOf(c *court, p *courtPeer) (silent, answers int) {
	v, _ := c.log.Changed()
	for _, b := range v.KubeVotesOf(p.ID(), courtCluster) {
		if b.Silent {
			silent++
		} else {
			answers++
		}
	}
	return silent, answers
}

func TestProberIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{takes: 10 * time.Millisecond}
		c, p := probing(t, 1200, s)
		time.Sleep(10 * time.Second)
		if _, answers := votesOf(c, p); answers != 1200 {
			t.Errorf("%d votes, want 1200", answers)
		}
		s.mu.Lock()
		s.takes, s.atMax = 3*time.Second, 0
		s.mu.Unlock()
		time.Sleep(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.atMax != maxKnocks {
			t.Errorf("bounded: %d questions at once, want %d", s.atMax, maxKnocks)
		}
	})
}

// TestTheDeadKeepNoPlaceOfTheLiving: however many kubelets are silent, which holds a place for the
// whole time-out, those that answer are asked in each interval.
func TestTheDeadKeepNoPlaceOfTheLiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const dead, alive, intervals = 300, 40, 20
		s := &script{}
		c, _ := probing(t, dead+alive, s)
		time.Sleep(10 * time.Second)
		s.mu.Lock()
		s.hangs = make(map[string]bool)
		for i := range dead {
			s.hangs[modelNodeNamed(i).Kubelet] = true
			s.says[modelNodeNamed(i).Kubelet] = HeardNothing
		}
		s.mu.Unlock()
		time.Sleep(time.Minute)
		s.mu.Lock()
		clear(s.asked)
		s.mu.Unlock()
		time.Sleep(intervals * c.settings.Probe.Interval)
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range dead + alive {
			target := modelNodeNamed(i).Kubelet
			if n := s.asked[target]; n == 0 || i >= dead && n < intervals-1 {
				t.Errorf("dead-keep-no-place: %s, which answers: %t, was asked %d times in %d intervals", target, i >= dead, n,
					intervals)
			}
		}
	})
}

// TestKubeletsAreAskedInRounds wants a peer to wake up ten times an interval, however many
// kubelets there are, and to ask each of them once in it: also those that take the whole
// interval to say nothing, and those that came later.
func TestKubeletsAreAskedInRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, intervals = 60, 20
		s := &script{}
		c, _ := probing(t, n, s)
		time.Sleep(1234 * time.Millisecond)
		late := recordOf(courtCluster, modelNodeNamed(n))
		c.log.lead(kubestate.PutNodes{Cluster: courtCluster, Nodes: []kubestate.Node{late}})
		s.say(HeardAlive, late.Probe)
		for _, takes := range []time.Duration{0, c.settings.Probe.Interval} {
			s.mu.Lock()
			s.takes = takes
			s.mu.Unlock()
			time.Sleep(4 * c.settings.Probe.Interval)
			s.mu.Lock()
			clear(s.asked)
			clear(s.moments)
			s.mu.Unlock()
			time.Sleep(intervals * c.settings.Probe.Interval)
			s.mu.Lock()
			if len(s.asked) != n+1 || len(s.moments) > intervals*rounds {
				t.Errorf("in-rounds: questions of %v: %d kubelets were asked, at %d moments in %d intervals", takes,
					len(s.asked), len(s.moments), intervals)
			}
			for target, times := range s.asked {
				if times < intervals-1 || times > intervals+1 {
					t.Errorf("in-rounds: questions of %v: %s was asked %d times in %d intervals", takes, target, times, intervals)
				}
			}
			s.mu.Unlock()
		}
	})
}

func TestProberVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		c, p := probing(t, 4, s)
		first := modelNodeNamed(0).Kubelet
		time.Sleep(10 * time.Second)
		s.say(HeardNothing, first)
		time.Sleep(2 * c.settings.Probe.Interval)
		s.say(HeardAlive, first) // after two misses
		time.Sleep(2 * c.settings.Probe.Interval)
		if silent, answers := votesOf(c, p); silent != 0 || answers != 4 {
			t.Errorf("two misses: %d silent, %d answer", silent, answers)
		}
		s.say(HeardKernel, first)
		time.Sleep(4 * c.settings.Probe.Interval)
		if silent, answers := votesOf(c, p); silent != 1 || answers != 3 {
			t.Errorf("a kubelet that hangs: %d silent, %d answer", silent, answers)
		}
		s.say(HeardOwnFault, first)
		time.Sleep(4 * c.settings.Probe.Interval)
		if silent, answers := votesOf(c, p); silent != 0 || answers != 3 {
			t.Errorf("nobody can ask it: %d silent, %d answer", silent, answers)
		}
		moved := recordOf(courtCluster, modelNodeNamed(0))
		moved.Probe = ""
		c.log.lead(kubestate.PutNodes{Cluster: courtCluster, Nodes: []kubestate.Node{moved}, Remove: []string{"uid-1"}})
		time.Sleep(3 * time.Second)
		s.mu.Lock()
		before := s.asked[first] + s.asked[modelNodeNamed(1).Kubelet]
		s.mu.Unlock()
		time.Sleep(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if after := s.asked[first] + s.asked[modelNodeNamed(1).Kubelet]; after != before {
			t.Errorf("%d questions to kubelets that the state does not name", after-before)
		}
	})
}

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t, 0, rand.New(rand.NewPCG(1, 1)))
		record := func(w Watched) error {
			v, _ := c.log.Changed()
			return Recorder{Cluster: courtCluster, Wall: time.Now}.Record(t.Context(), c.log, v, w)
		}
		known := func() int {
			v, _ := c.log.Changed()
			return len(v.KubeNodes(courtCluster))
		}
		var w Watched
		for i := range 450 {
			w.Nodes = append(w.Nodes, WatchedNode{Node: modelNodeNamed(i)})
		}
		before := c.log.count()
		if err := record(w); err != nil || known() != 0 {
			t.Errorf("before the list is read: %d recorded, %v", known(), err)
		}
		w.Synced = true
		w.Nodes[3].Ready = kubestate.ReadyFalse // and never was Ready
		w.Nodes[4].BootID = strings.Repeat("x", 500)
		err := record(w)
		if known() != 448 || c.log.count()-before != 3 {
			t.Errorf("%d recorded in %d entries, want 448 in 3", known(), c.log.count()-before)
		}
		if err == nil || !strings.Contains(err.Error(), "n4") {
			t.Errorf("the one that does not fit is not named: %v", err)
		}
		w.Nodes[4].BootID = "boot"
		w.Nodes[3].Ready, w.Nodes[5].Ready = kubestate.ReadyTrue, kubestate.ReadyFalse
		w.Nodes = w.Nodes[:449]
		if err := record(w); err != nil || known() != 449 || c.log.count()-before != 4 {
			t.Errorf("%d recorded in %d entries, want 449 in 4: %v", known(), c.log.count()-before, err)
		}
		for range 100 {
			if err := record(w); err != nil || c.log.count()-before != 4 {
				t.Fatalf("idle-costs-nothing: %d entries, %v", c.log.count()-before, err)
			}
		}
	})
}
