package cluster

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
)

// changing is a state that a test changes.
type changing struct {
	mu      sync.Mutex
	view    fsm.View
	named   string        // server ID that raft's configuration names
	changed chan struct{} // closed by the next view
}

func (c *changing) Changed() (fsm.View, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view, c.changed
}

func (c *changing) Servers() []raftstore.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []raftstore.Server{{ID: c.named, Voter: true}}
}

func (c *changing) Read(context.Context) (fsm.View, error) {
	v, _ := c.Changed()
	return v, nil
}

// apply makes a view the newest.
func (c *changing) apply(v fsm.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.view = v
	close(c.changed)
	c.changed = make(chan struct{})
}

// name has raft's configuration name one server, without a new view.
func (c *changing) name(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.named = id
}

// guarded is an Access that runs, with one connection of raft from h2.
type guarded struct {
	*fixture
	do     *doer
	state  *changing
	mu     sync.Mutex
	ahead  time.Duration // of its clock
	own    *pki.Credentials
	access *Access
}

// clock sets the clock ahead.
func (g *guarded) clock(ahead time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ahead = ahead
}

// become gives this peer other credentials.
func (g *guarded) become(c *pki.Credentials) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own = c
}

func (g *guarded) credentials() *pki.Credentials {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.own
}

func (g *guarded) now() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Add(g.ahead)
}

func (g *guarded) commit(t *testing.T, c fsm.Command) {
	t.Helper()
	if res, err := g.do.Do(t.Context(), "", c); err != nil || res.Err() != nil {
		t.Fatal(err, res.Err())
	}
}

// connect makes the connection, whose end closes gone.
func (g *guarded) connect(t *testing.T) (gone <-chan struct{}) {
	t.Helper()
	here, there := net.Pipe()
	server := tls.Server(here, pki.ServerTLS(g.access.end, pki.Protocol{Name: protocolRaft}))
	client := tls.Client(there, pki.ClientTLS(g.end(t, pki.PeerIdentity(clusterID, "h2", 1)), "h1", protocolRaft))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = client.Read(make([]byte, 1)) // fails at its end alone: nothing is sent
	}()
	if err := server.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.access.enter(server, protocolRaft, true); err != nil {
		t.Fatal(err)
	}
	return ended
}

// guardedTest runs a test with an Access that judges its open connections.
func guardedTest(t *testing.T, f func(t *testing.T, g *guarded)) {
	synctest.Test(t, func(t *testing.T) {
		fix := newFixture(t)
		g := &guarded{fixture: fix, do: &doer{f: fix}}
		g.commit(t, membership.PutMember{
			Member: membership.Member{ID: "h2", Name: "h2", Address: "h2:1", Version: fsm.Version}})
		g.own = g.end(t, pki.PeerIdentity(clusterID, "h1", 1)).Credentials()
		g.state = &changing{view: g.View(), named: "h2", changed: make(chan struct{})}
		g.access = NewAccess(pki.Endpoint{Credentials: g.credentials, Now: g.now}, Known{}, slog.New(slog.DiscardHandler))
		g.access.Follow(g.state, func(context.Context, membership.Member, string) ([]byte, error) {
			return nil, net.ErrClosed
		}, Own{})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { g.access.Run(ctx) })
		defer func() {
			stop()
			running.Wait()
			for _, o := range g.access.connections() {
				g.access.hangUp(o, net.ErrClosed)
			}
		}()
		f(t, g)
	})
}

// A connection that is open ends when its right does: with its certificate, with the
// incarnation that the certificate is of, and with its peer's removal, as soon as
// raft's configuration has followed. Nobody has to send anything on it.
func TestOpenConnectionsAreJudgedAgain(t *testing.T) {
	remove := func(t *testing.T, g *guarded) {
		g.commit(t, membership.RemoveMember{ID: "h2", Force: true})
		g.state.apply(g.View())
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, g *guarded)
		within time.Duration
	}{
		"certificate-ended": {func(_ *testing.T, g *guarded) { g.clock(pki.PeerTTL + time.Hour) }, certificateCheck},
		"incarnation-ended": {func(t *testing.T, g *guarded) {
			g.become(g.end(t, pki.PeerIdentity(clusterID, "h1", 2)).Credentials())
		}, certificateCheck},
		"removed": {func(t *testing.T, g *guarded) {
			g.state.name("h3")
			remove(t, g)
		}, 0},
		"removed, and raft's configuration follows": {func(t *testing.T, g *guarded) {
			remove(t, g)
			time.Sleep(10 * rightsCheck) // in a bubble
			if len(g.access.connections()) != 1 {
				t.Error("judged-again: closed while raft counts the peer")
			}
			g.state.name("h3")
		}, rightsCheck},
	} {
		t.Run(name, func(t *testing.T) {
			guardedTest(t, func(t *testing.T, g *guarded) {
				gone := g.connect(t)
				time.Sleep(10*certificateCheck + rightsCheck/2) // in a bubble; no tick is due now
				select {
				case <-gone: // in a bubble
					t.Fatal("judged-again: the connection was closed before anything had changed")
				default:
				}
				c.change(t, g)
				time.Sleep(c.within) // in a bubble
				synctest.Wait()
				select {
				case <-gone: // in a bubble
				default:
					t.Errorf("judged-again: %s: the connection is open %v later", name, c.within)
				}
				if n := len(g.access.connections()); n != 0 {
					t.Errorf("judged-again: %s: %d connections are in the table", name, n)
				}
			})
		})
	}
}
