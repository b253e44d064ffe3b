package ironic

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
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
		ctx := WithGuard(t.Context(), new(guard).check)
		got := k.do(ctx, dial(t, conf(f.URL)))
		err, _ := got[len(got)-1].(error)
		if !errors.Is(err, ErrNotAllowed) || Unjudged(err) {
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
	err := dial(t, conf(f.URL)).SetPower(WithGuard(t.Context(), g.check), node1, PowerReboot)
	if n := len(f.seen()); n != 1 || !errors.Is(err, ErrNotAllowed) {
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
				if err := c.SetPower(t.Context(), node1, PowerOff); err != nil {
					t.Fatal(err)
				}
			}
			before := len(f.seen())
			g := &guard{after: 1}
			err := c.SetPower(WithGuard(t.Context(), g.check), node1, PowerReboot)
			if n := len(f.seen()) - before; n != 0 || !errors.Is(err, ErrNotAllowed) {
				t.Errorf("TLS %v, used before %v: %d requests: %v", secure, reused, n, err)
			}
			// The connection was given up; the next call takes another.
			if err := c.SetPower(t.Context(), node1, PowerOff); err != nil {
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
	ctx := WithGuard(t.Context(), func() error {
		if over.Load() {
			return ErrNotAllowed
		}
		return nil
	})
	err := c.SetPower(ctx, node1, PowerReboot)
	if n := len(f.seen()); n != 0 || !errors.Is(err, ErrNotAllowed) {
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
		if err := c.SetPower(WithGuard(t.Context(), func() error { return nil }), "good", PowerOff); err != nil {
			t.Fatal(err)
		}
		g := &guard{after: 1}
		if err := c.SetPower(WithGuard(t.Context(), g.check), "bad", PowerOff); !errors.Is(err, ErrNotAllowed) {
			t.Fatal(err)
		}
	}
}

// mortal is a server that answers the first request on its first connection, and
// closes that connection on the second one, which it has read: as one that dies, or a
// proxy that restarts. Other connections are served well.
type mortal struct {
	addr string

	mu       sync.Mutex
	arrivals []string   // methods, in the order of arrival
	open     []net.Conn // all that came
}

func newMortal(t *testing.T) *mortal {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mortal{addr: l.Addr().String()}
	var served sync.WaitGroup
	served.Go(func() {
		for first := true; ; first = false {
			c, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			m.mu.Lock()
			m.open = append(m.open, c)
			m.mu.Unlock()
			served.Go(func() { m.serve(c, first) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		m.mu.Lock()
		for _, c := range m.open {
			c.Close()
		}
		m.mu.Unlock()
		served.Wait()
	})
	return m
}

func (m *mortal) serve(c net.Conn, dies bool) {
	defer c.Close()
	in := bufio.NewReader(c)
	for n := 0; ; n++ {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		m.mu.Lock()
		m.arrivals = append(m.arrivals, r.Method)
		m.mu.Unlock()
		if dies && n == 1 {
			return
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
			return
		}
	}
}

func (m *mortal) arrived() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.arrivals)
}

// guarded asks the guard before it hands a request on, as one would in front of
// net/http's transport.
type guarded struct{ http.RoundTripper }

func (g guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := Allowed(req.Context()); err != nil {
		return nil, err
	}
	return g.RoundTripper.RoundTrip(req)
}

// TestNothingIsRepeatedUnasked: net/http's transport sends a GET again by itself if the
// connection, used before, ends without an answer, and no guard in front of it is asked
// again. That is why calls of Ironic do not go through it: theirs are sent once, also
// where a worker was stopped between the two.
func TestNothingIsRepeatedUnasked(t *testing.T) {
	pool := &http.Transport{}
	defer pool.CloseIdleConnections()
	for _, c := range []struct {
		name    string
		by      http.RoundTripper
		method  string
		repeats int
	}{
		{"net/http", guarded{pool}, http.MethodGet, 1},
		{"net/http", guarded{pool}, http.MethodPut, 0},
		{"ours", dial(t, conf("http://192.0.2.1")).now.Load().transport, http.MethodGet, 0},
		{"ours", dial(t, conf("http://192.0.2.1")).now.Load().transport, http.MethodPut, 0},
	} {
		t.Run(c.name+" "+c.method, func(t *testing.T) {
			m := newMortal(t)
			send := func(check func() error) error {
				ctx := WithGuard(t.Context(), check)
				req, err := http.NewRequestWithContext(ctx, c.method, "http://"+m.addr+"/v1/nodes",
					strings.NewReader(map[string]string{http.MethodPut: "{}"}[c.method]))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := c.by.RoundTrip(req)
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, resp.Body)
				return errors.Join(err, resp.Body.Close())
			}
			if err := send(func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			err := send(func() error { // the claim is over as soon as the request has come
				if m.arrived() > 1 {
					return ErrNotAllowed
				}
				return nil
			})
			if n := m.arrived() - 2; n != c.repeats || (err == nil) != (c.repeats > 0) {
				t.Errorf("no-repeat: %s by %s came %d times more, want %d: %v", c.method, c.name, n, c.repeats, err)
			}
		})
	}
}
