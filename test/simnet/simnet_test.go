package simnet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// wire is a link that can be cut.
type wire struct {
	mu  sync.Mutex
	cut bool
}

func (w *wire) Delay(string, string) time.Duration { return time.Millisecond }

func (w *wire) Passes(string, string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.cut
}

func (w *wire) Lost(string, string) bool { return false }

func (w *wire) set(n *Net, cut bool) {
	n.Settle()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

// gate stops a process.
type gate struct {
	mu      sync.Mutex
	stopped chan struct{}
}

func (g *gate) Stopped() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopped
}

func (g *gate) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = make(chan struct{})
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.stopped)
	g.stopped = nil
}

// pair is a connection between two processes.
type pair struct {
	wire         *wire
	net          *Net
	client, peer *Process
	gate         *gate // the client's
	near, far    net.Conn
}

func connected(t *testing.T, endsWhenSilent bool) *pair {
	t.Helper()
	p := &pair{wire: &wire{}, gate: &gate{}}
	p.net = New(p.wire)
	p.client = p.net.Start("a", netip.MustParseAddr("10.0.0.1"), p.gate)
	p.peer = p.net.Start("b", netip.MustParseAddr("10.0.0.2"), &gate{})
	ln, err := p.peer.Listen(t.Context(), "10.0.0.2:7350")
	if err != nil {
		t.Fatal(err)
	}
	if p.near, err = p.client.Dial(t.Context(), "10.0.0.2:7350", endsWhenSilent); err != nil {
		t.Fatal(err)
	}
	if p.far, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *pair) write(t *testing.T, text string) {
	t.Helper()
	if _, err := p.near.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// What arrived before a cut can be read during it; the rest arrives after it, in order, when
// it is sent again.
func TestCutHoldsWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connected(t, false)
		p.write(t, "early ")
		time.Sleep(time.Second)
		p.wire.set(p.net, true)
		p.write(t, "late")
		began, buf := time.Now(), make([]byte, 16)
		if n, err := p.far.Read(buf); err != nil || string(buf[:n]) != "early " {
			t.Errorf("%q, %v", buf[:n], err)
		}
		time.AfterFunc(10*time.Second, func() { p.wire.set(p.net, false) })
		if n, err := p.far.Read(buf); err != nil || string(buf[:n]) != "late" {
			t.Errorf("%q, %v", buf[:n], err)
		}
		if took := time.Since(began); took < 10*time.Second || took > 20*time.Second {
			t.Errorf("it arrived after %v", took)
		}
		p.client.Kill()
		if _, err := p.far.Read(buf); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after the kill: %v", err)
		}
	})
}

// Only a connection that shall end when it is silent does; a dial to a dead port is refused.
func TestSilenceEndsAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ends := range []bool{true, false} {
			p := connected(t, ends)
			p.wire.set(p.net, true)
			p.write(t, "x")
			_ = p.near.SetReadDeadline(time.Now().Add(time.Minute)) // it never fails
			_, err := p.near.Read(make([]byte, 1))
			if errors.Is(err, syscall.ETIMEDOUT) != ends {
				t.Errorf("ends when silent %v: %v", ends, err)
			}
			p.wire.set(p.net, false)
			p.peer.Kill()
			if _, err := p.client.Dial(t.Context(), "10.0.0.2:7350", false); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("a dead port: %v", err)
			}
			p.client.Kill()
		}
	})
}

// What a stopped process writes leaves when it goes on, and never if it is killed before.
func TestStoppedProcessSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, killed := range []bool{true, false} {
			p := connected(t, false)
			p.gate.stop()
			p.write(t, "x")
			time.Sleep(time.Minute)
			if killed {
				p.client.Kill()
			}
			p.gate.resume()
			n, err := p.far.Read(make([]byte, 1))
			if killed && (n != 0 || !errors.Is(err, syscall.ECONNRESET)) || !killed && n != 1 {
				t.Errorf("killed %v: %d bytes, %v", killed, n, err)
			}
			_ = p.near.Close() // it never fails
			if _, err := p.far.Read(make([]byte, 1)); !killed && err != io.EOF {
				t.Errorf("closed: %v", err)
			}
			p.client.Kill()
			p.peer.Kill()
		}
	})
}

// Dial ends with its context while the link is cut.
func TestDialOverACutLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connected(t, false)
		p.wire.set(p.net, true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := p.client.Dial(ctx, "10.0.0.2:7350", false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial: %v", err)
		}
	})
}
