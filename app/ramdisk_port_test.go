package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/test/msgcheck"
)

// portRig is a RamdiskPort whose proofs and listener the test decides about.
type portRig struct {
	*RamdiskPort
	mu      sync.Mutex
	proof   error
	hangs   bool // a proof ends with its time
	taken   error
	opened  int
	closed  int
	drained int
}

func (r *portRig) Shutdown(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drained++
	return nil
}

func (r *portRig) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
	return nil
}

func (r *portRig) set(proof error, hangs bool, taken error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proof, r.hangs, r.taken = proof, hangs, taken
}

// inPortRig runs f in a bubble while the port runs.
func inPortRig(t *testing.T, f func(r *portRig, stop func())) {
	synctest.Test(t, func(t *testing.T) {
		r := &portRig{proof: errNoProof}
		r.RamdiskPort = &RamdiskPort{Address: ":5055", Logger: msgcheck.Logger(t),
			Proof: func(ctx context.Context) error {
				r.mu.Lock()
				proof, hangs := r.proof, r.hangs
				r.mu.Unlock()
				if hangs {
					<-ctx.Done()
				}
				return proof
			},
			Open: func(context.Context) (RamdiskServer, error) {
				r.mu.Lock()
				defer r.mu.Unlock()
				if r.taken == nil {
					r.opened++
				}
				return r, r.taken
			}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		f(r, func() { cancel(); running.Wait() })
		cancel()
		running.Wait()
	})
}

var errNoProof = errors.New("no leader is known")

func pass(d time.Duration) {
	time.Sleep(d) // in a bubble
	synctest.Wait()
}

// A peer refuses from its start until its first proof, not while a leader changes, within a few
// seconds when it is cut off, and takes again with the first proof.
func TestRamdiskPortFollowsProofs(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		inPortRig(t, func(r *portRig, _ func()) {
			if pass(5 * time.Second); r.listens() {
				t.Error("ramdisks-refused: open without a proof")
			}
			r.set(nil, false, nil)
			if pass(3 * time.Second); !r.listens() || r.Doubted() || len(r.warnings()) > 0 {
				t.Fatalf("ramdisks-taken: after a proof: %v", r.warnings())
			}
			for range 10 { // leaders change, one after the other
				r.set(errNoProof, hangs, nil)
				pass(1500 * time.Millisecond)
				if !hangs && !r.Doubted() {
					t.Error("ramdisks-refused: nothing is doubted")
				}
				r.set(nil, false, nil)
				pass(3 * time.Second)
			}
			if r.opened != 1 || r.closed != 0 {
				t.Errorf("leader-change: opened %d times, closed %d", r.opened, r.closed)
			}
			r.set(errNoProof, hangs, nil)
			pass(6500 * time.Millisecond)
			if r.listens() || r.closed != 1 || r.drained != 0 {
				t.Errorf("ramdisks-refused: cut off for 6.5 s: closed %d times, drained %d", r.closed, r.drained)
			}
			if w := r.warnings(); len(w) != 1 || w[0].Code != "ramdisks_refused" ||
				!strings.Contains(w[0].Text, ":5055") || !strings.Contains(w[0].Text, errNoProof.Error()) {
				t.Errorf("%+v", w)
			}
			r.set(nil, false, nil)
			if pass(3 * time.Second); !r.listens() || r.opened != 2 || len(r.warnings()) > 0 {
				t.Errorf("ramdisks-taken: opened %d times, %v", r.opened, r.warnings())
			}
		})
	}
}

// Another process may have the port when it is to be taken again: that is said, and tried until
// it is free.
func TestRamdiskPortIsTakenAgain(t *testing.T) {
	inPortRig(t, func(r *portRig, _ func()) {
		taken := errors.New("listen on :5055 (api.ramdisk_listen): address already in use by nc")
		r.set(nil, false, taken)
		pass(time.Minute)
		if w := r.warnings(); r.listens() || len(w) != 1 || !strings.Contains(w[0].Text, taken.Error()) {
			t.Errorf("ramdisks-taken: %+v", w)
		}
		r.set(nil, false, nil)
		if pass(2 * time.Second); !r.listens() || len(r.warnings()) > 0 {
			t.Errorf("ramdisks-taken: the port is free, and %+v", r.warnings())
		}
	})
}

// A peer that is stopped lets answers under way end; one that dies does not, and does not open
// the port again.
func TestRamdiskPortEnds(t *testing.T) {
	inPortRig(t, func(r *portRig, stop func()) {
		r.set(nil, false, nil)
		pass(2 * time.Second)
		if stop(); r.drained != 1 || r.closed != 0 || r.listens() {
			t.Errorf("stopped: drained %d, closed %d", r.drained, r.closed)
		}
	})
	inPortRig(t, func(r *portRig, _ func()) {
		r.set(nil, false, nil)
		pass(2 * time.Second)
		r.Stop(context.Background(), 0)
		if pass(5 * time.Second); r.drained != 0 || r.closed != r.opened || r.listens() {
			t.Errorf("killed: drained %d, closed %d of %d", r.drained, r.closed, r.opened)
		}
	})
}

// While the last proof failed, 503 would have a ramdisk come again to this peer: its connection
// ends. Every other answer is given, and so is 503 of a peer that could commit.
func TestRamdiskHandlerCutsWhatItCannotTake(t *testing.T) {
	for _, c := range []struct {
		path    string
		status  int
		doubted bool
		want    int // 0: the connection ends
	}{
		{"/v1/continue", 200, true, 200}, {"/v1/continue", 503, false, 503}, {"/v1/continue", 503, true, 0},
		{"/v1/continue/", 503, true, 0}, {"/v1/continue_inspection", 202, true, 202},
		{"/v1/continue_inspection", 503, true, 0}, {"/v1/continue_inspection", 404, true, 404},
		{"/v1/continue", 500, true, 500}, {"/v1/continue", 409, true, 409},
		{"/v1/introspection", 200, false, 404}, {"/metrics", 200, false, 404}, {"/", 200, false, 404},
		{"/ui/", 200, false, 404}, {"/v1/continue/x", 200, false, 404}, {"/v1/continues", 200, false, 404},
	} {
		p := &RamdiskPort{}
		if c.doubted {
			p.countProof(errNoProof)
		}
		w := httptest.NewRecorder()
		cut := func() (cut bool) {
			defer func() { cut = recover() == http.ErrAbortHandler }()
			p.handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte("{}")) // a recorder takes everything
			})).ServeHTTP(w, httptest.NewRequest(http.MethodPost, c.path, nil))
			return false
		}()
		if cut != (c.want == 0) || !cut && w.Code != c.want || cut && w.Body.Len() > 0 {
			t.Errorf("ramdisk-cut: %s %d, doubted %v: %d, cut %v, want %d", c.path, c.status, c.doubted, w.Code, cut, c.want)
		}
	}
}

func TestRamdiskFigures(t *testing.T) {
	inPortRig(t, func(r *portRig, _ func()) {
		all := health.NewFigures()
		r.register(all)
		figure := func(name string) float64 {
			families, err := all.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if m := f.GetMetric()[0]; f.GetName() == name {
					return m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
			t.Fatalf("no %s", name)
			return 0
		}
		r.set(nil, false, nil)
		pass(2 * time.Second)
		if open, refusals := figure("trivet_ramdisk_port_open"), figure("trivet_ramdisk_port_refusals_total"); open != 1 ||
			refusals != 0 {
			t.Errorf("open %v after %v refusals", open, refusals)
		}
		r.set(errNoProof, false, nil)
		pass(5 * time.Second)
		if open, refusals := figure("trivet_ramdisk_port_open"), figure("trivet_ramdisk_port_refusals_total"); open != 0 ||
			refusals != 1 {
			t.Errorf("open %v after %v refusals", open, refusals)
		}
	})
}
