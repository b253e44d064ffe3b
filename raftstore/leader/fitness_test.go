package leader

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
)

// fakeHost is what a Fitness looks at.
type fakeHost struct {
	view    fsm.View
	failed  time.Time // when the log could last not be written
	led     bool
	refuses bool
}

func (h *fakeHost) View() fsm.View { return h.view }

func (h *fakeHost) Servers() []raftstore.Server { return nil }

func (h *fakeHost) DiskFailure() (time.Time, error) {
	if h.failed.IsZero() {
		return time.Time{}, nil
	}
	return h.failed, errors.New("input/output error")
}

func (h *fakeHost) Leader() (raftstore.Server, bool) { return raftstore.Server{}, h.led }
func (h *fakeHost) Refuse(on bool)                   { h.refuses = on }

// A peer whose disk hung or failed stands aside for half a minute, also when
// the disk works again at once: else it wins election after election.
func TestDiskTroubleOutlastsItself(t *testing.T) {
	for name, trouble := range map[string]func(h *fakeHost, f *Fitness){
		"hung":   func(_ *fakeHost, f *Fitness) { f.Hung(true); f.Hung(false) },
		"failed": func(h *fakeHost, _ *Fitness) { h.failed = time.Now() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host := &fakeHost{view: fsm.New().View(), led: true}
				f := NewFitness("h1", host, raftstore.Normal(), slog.New(slog.DiscardHandler))
				if f.update(); f.Fit() != nil || host.refuses {
					t.Fatalf("a healthy peer: fit %v, refuses %t", f.Fit(), host.refuses)
				}
				trouble(host, f)
				time.Sleep(rests - time.Millisecond) // in a bubble
				if f.update(); f.Fit() == nil || !host.refuses {
					t.Errorf("stands-aside: %v after the disk %s: fit %v, refuses %t", rests-time.Millisecond, name, f.Fit(),
						host.refuses)
				}
				time.Sleep(time.Millisecond) // in a bubble
				if f.update(); f.Fit() != nil || host.refuses {
					t.Errorf("stands-aside-no-longer: %v after the disk %s: fit %v, refuses %t", rests, name, f.Fit(), host.refuses)
				}
			})
		})
	}
}

// A refusal lapses once no peer has led for three seconds: this one may hold the
// newest log alone. It outlasts an election of the others, whatever their clocks.
func TestRefusalLapsesWithoutALeader(t *testing.T) {
	for _, c := range []struct {
		clocks raftstore.Timing
		away   error
		lapses time.Duration
	}{
		{raftstore.Fast(), errors.New("Ironic is away"), 3 * time.Second},
		{raftstore.Normal(), errors.New("Ironic is away"), 3 * time.Second},
		{raftstore.Slow(), errors.New("Ironic is away"), 4200 * time.Millisecond},
		{raftstore.Normal(), ErrMaintenance, 2 * time.Second},
		{raftstore.Slow(), ErrMaintenance, 4200 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			host := &fakeHost{view: fsm.New().View(), led: true}
			if errors.Is(c.away, ErrMaintenance) {
				host.view = inMaintenance(t)
			}
			f := NewFitness("h1", host, c.clocks, slog.New(slog.DiscardHandler), func() error { return c.away })
			f.update()
			host.led = false
			for _, step := range []struct {
				after   time.Duration
				refuses bool
			}{{c.lapses - time.Millisecond, true}, {time.Millisecond, false}} {
				time.Sleep(step.after) // in a bubble
				if f.update(); host.refuses != step.refuses {
					t.Errorf("refusal-lapses: heartbeat %v, %v: %v later it refuses: %t, want %t", c.clocks.Heartbeat, c.away,
						step.after, host.refuses, step.refuses)
				}
			}
			host.led = true
			if f.update(); !host.refuses {
				t.Error("refusal-lapses: it does not refuse again once another peer leads")
			}
		})
	}
}

// inMaintenance is a state in which h1 must not lead.
func inMaintenance(t *testing.T) fsm.View {
	t.Helper()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "5f0c1f3e-0000-4000-8000-000000000001",
		CACert:    []byte("-----BEGIN X-----"), CAKey: []byte("-----BEGIN X-----"), GossipKey: make([]byte, 32),
		Member: membership.Member{ID: "h1", Name: "h1", Address: "h1:7350", Version: fsm.Version},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for n, c := range []fsm.Command{
		membership.PutMember{Member: membership.Member{ID: "h2", Name: "h2", Address: "h2:7350", Version: fsm.Version}},
		membership.OpenSession{Peer: "h2", Boot: "b", Version: fsm.Version},
		membership.Exclude{Peer: "h1", From: membership.FromLeading, On: true},
	} {
		data, err := fsm.Encode(fsm.Header{}, c)
		if err != nil {
			t.Fatal(err)
		}
		if err := state.Apply(fsm.Entry{Index: uint64(n + 2), Term: 1, Data: data}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return state.View()
}
