package ironic

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/trivet-ha/trivet/inspector"
)

// guard is a claim that can be lost.
type guard struct {
	asked atomic.Int64
	after int64 // how often it says yes
}

func (g *guard) check() error {
	if g.asked.Add(1) > g.after {
		return errors.New("the claim is over")
	}
	return nil
}

func TestGuardComesFirst(t *testing.T) {
	for _, k := range calls {
		if k.name == "ping" {
			continue
		}
		f := serve(t, k.answer)
		ctx := inspector.WithGuard(t.Context(), new(guard).check)
		got := k.do(ctx, dial(t, conf(f.URL)))
		err, _ := got[len(got)-1].(error)
		if !errors.Is(err, inspector.ErrNotAllowed) || inspector.Unreachable(err) {
			t.Errorf("%s: %v", k.name, err)
		}
		if lines := f.lines(); len(lines) > 0 {
			t.Errorf("%s: sent %q", k.name, lines)
		}
	}
}

// TestGuardStopsTheSecondTry lets the first pass. It is asked before the
// connection is looked for and at the write.
func TestGuardStopsTheSecondTry(t *testing.T) {
	f := serve(t, fault(503, "busy"))
	g := &guard{after: 2}
	err := dial(t, conf(f.URL)).SetPower(inspector.WithGuard(t.Context(), g.check), node1, inspector.PowerReboot)
	if n := len(f.seen()); n != 1 || !errors.Is(err, inspector.ErrNotAllowed) {
		t.Errorf("%d requests: %v", n, err)
	}
	if asked := g.asked.Load(); asked != 3 {
		t.Errorf("asked %d times, want 3: no more tries after no", asked)
	}
}

// TestGuardIsAskedAtTheWrite loses the claim while the connection is dialled,
// and on a connection that is there already.
func TestGuardIsAskedAtTheWrite(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, reused := range []bool{false, true} {
			f := serve(t, answer{202, ""})
			c := dial(t, conf(f.URL))
			if secure {
				c = secured(t, f)
			}
			if reused {
				if err := c.SetPower(t.Context(), node1, inspector.PowerOff); err != nil {
					t.Fatal(err)
				}
			}
			before := len(f.seen())
			g := &guard{after: 1}
			err := c.SetPower(inspector.WithGuard(t.Context(), g.check), node1, inspector.PowerReboot)
			if n := len(f.seen()) - before; n != 0 || !errors.Is(err, inspector.ErrNotAllowed) {
				t.Errorf("TLS %v, used before %v: %d requests: %v", secure, reused, n, err)
			}
			// The connection was given up; the next call takes another.
			if err := c.SetPower(t.Context(), node1, inspector.PowerOff); err != nil {
				t.Errorf("TLS %v, used before %v: next call: %v", secure, reused, err)
			}
		}
	}
}

// secured puts the same service behind TLS.
func secured(t *testing.T, f *fake) *Client {
	t.Helper()
	server := httptest.NewTLSServer(f)
	t.Cleanup(server.Close)
	return dial(t, trusting(t, conf(server.URL), server))
}

// TestGuardIsAskedAfterDialling loses the claim within the dialler.
func TestGuardIsAskedAfterDialling(t *testing.T) {
	f := serve(t, answer{202, ""})
	c := dial(t, conf(f.URL))
	var over atomic.Bool
	dialler := c.now.Load().transport.dial
	c.now.Load().transport.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		over.Store(true) // it took that long
		return dialler(ctx, network, address)
	}
	ctx := inspector.WithGuard(t.Context(), func() error {
		if over.Load() {
			return inspector.ErrNotAllowed
		}
		return nil
	})
	err := c.SetPower(ctx, node1, inspector.PowerReboot)
	if n := len(f.seen()); n != 0 || !errors.Is(err, inspector.ErrNotAllowed) {
		t.Errorf("%d requests: %v", n, err)
	}
}

// TestGuardsDoNotMix runs calls of two workers over the same connections, one of
// which may not act.
func TestGuardsDoNotMix(t *testing.T) {
	f := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/nodes/good/states/power" {
			t.Errorf("sent %s", r.URL.Path)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(f.Close)
	c := dial(t, conf(f.URL))
	for range 50 {
		if err := c.SetPower(inspector.WithGuard(t.Context(), func() error { return nil }), "good", inspector.PowerOff); err != nil {
			t.Fatal(err)
		}
		g := &guard{after: 1}
		if err := c.SetPower(inspector.WithGuard(t.Context(), g.check), "bad", inspector.PowerOff); !errors.Is(err, inspector.ErrNotAllowed) {
			t.Fatal(err)
		}
	}
}
