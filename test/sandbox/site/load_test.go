package site

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/test/sandbox/trio"
	"github.com/trivet-ha/trivet/test/testwait"
)

func TestVerdict(t *testing.T) {
	timeout, other := "Introspection timeout", "Failed to set boot device"
	for _, c := range []struct {
		name        string
		ward        ward
		interrupted bool
		want        string
	}{
		{"finished", ward{seen: client.Introspection{State: client.StateFinished}}, false, ""},
		{"silent", ward{silent: true, seen: client.Introspection{State: client.StateError, Error: &timeout}}, false, ""},
		{"silent for another reason", ward{silent: true, seen: client.Introspection{State: client.StateError, Error: &other}},
			false, "ended in error: Failed"},
		{"silent and finished", ward{silent: true, seen: client.Introspection{State: client.StateFinished}}, false,
			"ended in finished"},
		{"failed", ward{seen: client.Introspection{State: client.StateError, Error: &other}}, false,
			"ended in error: Failed"},
		{"failed, interrupted", ward{seen: client.Introspection{State: client.StateError, Error: &other}}, true,
			"ended in error: Failed"},
		{"stuck", ward{stuck: true, seen: client.Introspection{State: "processing"}}, true, "is stuck in processing"},
		{"on its way", ward{seen: client.Introspection{State: "waiting"}}, true, ""},
		{"refused", ward{refused: errors.New("400")}, false, "was not taken: 400"},
	} {
		if got := c.ward.wrong(c.interrupted); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	l := &load{}
	for i := range 8 {
		l.wards = append(l.wards, &ward{uuid: fmt.Sprint(i), stuck: true})
	}
	if err := l.verdict(false); err == nil || !strings.HasSuffix(err.Error(), "4 is stuck in \nand 3 more") {
		t.Errorf("%v", err)
	}
}

// told collects what a run says.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (t *told) tell(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func TestOnlyWhatADeadPeerTookAlongIsStartedAgain(t *testing.T) {
	begun := time.Now()
	for _, c := range []struct {
		name   string
		ward   ward
		struck time.Time
		want   bool
	}{
		{"a leader died meanwhile", ward{seen: client.Introspection{State: client.StateError}}, begun.Add(time.Second), true},
		{"a leader died before", ward{seen: client.Introspection{State: client.StateError}}, begun.Add(-time.Second), false},
		{"it finished", ward{seen: client.Introspection{State: client.StateFinished}}, begun.Add(time.Second), false},
		{"it is silent", ward{silent: true, seen: client.Introspection{State: client.StateError}}, begun.Add(time.Second),
			false},
		{"it was started again often enough",
			ward{restarted: maxRestarts, seen: client.Introspection{State: client.StateError}}, begun.Add(time.Second), false},
	} {
		var said told
		l := &load{opts: Options{Tell: said.tell}, peers: &cluster{struck: []time.Time{c.struck}},
			changed: make(chan struct{})}
		if got := l.again(&c.ward, begun); got != c.want || got != (len(said.lines) == 1) {
			t.Errorf("%s: %v, told %v", c.name, got, said.lines)
		}
	}
}

// site puts a site up that is taken down at the end of the test.
func site(t *testing.T, o Options) (*Sandbox, *told) {
	t.Helper()
	heard := new(told)
	o.Tell = heard.tell
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s, heard
}

// checkMachines sees that they were switched on no oftener than they had to,
// and that Ironic knows what they posted.
func checkMachines(t *testing.T, s *Sandbox) {
	t.Helper()
	for _, w := range s.load.wards {
		n, _ := s.ironic.Look(w.uuid)
		if most := 2 * (1 + w.restarted); n.PowerOns < 1 || n.PowerOns > most ||
			!strings.Contains(string(n.Properties), "memory_mb") {
			t.Errorf("%s after %d restarts: switched on %d times, properties %s", w.uuid, w.restarted, n.PowerOns, n.Properties)
		}
	}
}

// checkServices sees that one peer says of itself that machines boot from its
// host, and that people were told.
func checkServices(ctx context.Context, t *testing.T, s *Sandbox, heard *told) error {
	t.Helper()
	heard.mu.Lock()
	if !slices.ContainsFunc(heard.lines, func(l string) bool { return strings.HasPrefix(l, "PXE service open on peer") }) {
		t.Errorf("no PXE service is told to be open: %q", heard.lines)
	}
	heard.mu.Unlock()
	return trio.Until(ctx, "one peer that says that its PXE service is open", func() bool {
		open := 0
		for _, slot := range s.peers.slots {
			if slot.Peer().Status().Door.Open {
				open++
			}
		}
		return open == 1
	})
}

func TestASiteStaysUpUntilItIsEnded(t *testing.T) {
	s, heard := site(t, Options{Nodes: 4})
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Bound(stuckAfter))
	defer cancel()
	done := make(chan error, 1)
	var sum Summary
	go func() {
		var err error
		sum, err = s.Run(ctx)
		done <- err
	}()
	err := trio.Until(ctx, "all to end", func() bool { return s.Progress().Ended() == 4 })
	err = errors.Join(err, checkServices(ctx, t, s, heard))
	select {
	case <-done:
		t.Error("it ended by itself")
	default:
	}
	cancel()
	err = errors.Join(err, testwait.Receive(t, done, "the sandbox ends"))
	sum.SlowestPXEGapMS = 0 // not 0 when this machine was so busy that another peer was elected
	if err != nil || sum != (Summary{Accepted: 4, Finished: 4}) {
		t.Errorf("%+v %v %v", sum, err, heard.lines)
	}
	checkMachines(t, s)
	dir := s.Dir()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
}

// TestSmoke is the main job, once, with the real log over mutual TLS and on disk: three
// peers introspect 20 machines while the leader is killed twice. It fails for what must
// never be, whatever the speed of the machine: a node that is stuck, two open PXE
// services. How long things took is logged.
func TestSmoke(t *testing.T) {
	const nodes, kills = 20, 2
	s, heard := site(t, Options{Nodes: nodes, Timeout: stuckAfter})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	var sum Summary
	go func() {
		var err error
		sum, err = s.Run(ctx)
		done <- err
	}()
	for killed := range kills {
		if err := trio.Until(ctx, "introspections that have ended",
			func() bool { return s.Progress().Ended() >= 1+killed*nodes/2 }); err != nil {
			t.Fatal(err)
		}
		if err := s.peers.strike(ctx); err != nil {
			t.Fatalf("%v %q", err, heard.lines)
		}
	}
	err := trio.Until(ctx, "each node to end or to be stuck", func() bool {
		s.load.mu.Lock()
		defer s.load.mu.Unlock()
		return !slices.ContainsFunc(s.load.wards, func(w *ward) bool { return !w.left })
	})
	cancel()
	err = errors.Join(err, testwait.Receive(t, done, "the site ends"))
	t.Logf("%+v", sum)
	sum.SlowestFailoverMS, sum.SlowestPXEGapMS, sum.Restarted = 0, 0, 0
	if err != nil || sum != (Summary{Accepted: nodes, Finished: nodes, Failovers: kills}) {
		t.Errorf("%+v %v %q", sum, err, heard.lines)
	}
	checkMachines(t, s)
}

func TestADirectoryThatIsInUseIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), Options{Nodes: 1, Dir: dir}); err == nil ||
		!strings.Contains(err.Error(), "is not empty") {
		t.Errorf("%v", err)
	}
}
