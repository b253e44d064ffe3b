// Package trio is a cluster of three real peers in this process: sockets on loopback,
// mutual TLS, and logs on disk. Each can be stopped or killed, and started again in its
// place.
package trio

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/test/testenv"
)

// Size is the number of peers.
const Size = 3

const (
	// Poll is the pause between two looks at something that is waited for.
	Poll = 20 * time.Millisecond
	// closeLimit bounds the end of all peers.
	closeLimit = time.Minute
)

// Trio is the three places of the peers.
type Trio [Size]*Host

// Host is one peer's place: its configuration, directory and ports, which outlive the
// peer's processes. Its methods may be called concurrently.
type Host struct {
	datadir.Host
	// GaveUp is told when a peer that was not killed would end its process.
	GaveUp func(error)
	// Change, if set, changes the options of a process before it starts; killed becomes
	// true when the process is killed.
	Change func(o *app.Options, killed *atomic.Bool)

	dir     *datadir.Dir // nil: not opened
	log     *slog.Logger
	release []func() // of its ports

	mu   sync.Mutex // guards life
	life *life      // nil while the peer is dead
}

// life is a peer between its start and its death.
type life struct {
	peer   *app.Peer
	killed atomic.Bool // what it says now does not count
}

// New chooses ports and makes data directories below root. The configurations may be
// changed until Form.
func New(root string, log *slog.Logger) (_ *Trio, err error) {
	t := new(Trio)
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close(context.Background()))
		}
	}()
	for i := range t {
		c := config.Default()
		c.Name = fmt.Sprintf("peer%d", i+1)
		c.DataDir, c.Socket = filepath.Join(root, c.Name), filepath.Join(root, c.Name+".sock")
		c.API.AuthStrategy, c.Firewall.Driver = "noauth", "noop"
		t[i] = &Host{log: log.With("host", c.Name)}
		for _, listen := range []*string{&c.API.Listen, &c.Cluster.Listen, &c.Gossip.Listen} {
			if err := t[i].reserve(listen); err != nil {
				return nil, err
			}
		}
		t[i].Host = datadir.Host{Config: c, Binary: "sandbox", Wall: time.Now, Random: rand.Reader}
		if t[i].dir, err = datadir.Open(c.DataDir); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// reserve chooses the address of a listener.
func (h *Host) reserve(listen *string) (err error) {
	address, release, err := testenv.ReservePort()
	if err == nil {
		*listen, h.release = address, append(h.release, release)
	}
	return err
}

// Form founds the cluster and returns when all three vote and one leads.
func (t *Trio) Form(ctx context.Context) error {
	first := t[0]
	founding, err := first.Init(first.dir)
	if err != nil {
		return fmt.Errorf("found a cluster: %w", err)
	}
	for _, h := range t {
		if h != first {
			if _, err := h.Join(ctx, h.dir, founding.Identity.Address, founding.Token); err != nil {
				return fmt.Errorf("%s joins: %w", h.Name(), err)
			}
		}
		if err := h.Start(ctx); err != nil {
			return err
		}
	}
	return Until(ctx, "three voters and a leader", func() bool { return t.voters() == Size && t.Leader() != nil })
}

// voters counts them as the first living peer sees it.
func (t *Trio) voters() (n int) {
	for _, h := range t {
		p := h.Peer()
		if p == nil {
			continue
		}
		for _, srv := range p.Core().Store.Servers() {
			if srv.Voter {
				n++
			}
		}
		return n
	}
	return 0
}

// Leader returns the host of the peer that leads with all its duties, nil if none does.
func (t *Trio) Leader() *Host { return t.role(true) }

// Follower returns a host whose peer lives and does not lead, nil if there is none.
func (t *Trio) Follower() *Host { return t.role(false) }

func (t *Trio) role(leads bool) *Host {
	for _, h := range t {
		if p := h.Peer(); p != nil && (p.Core().Runner.Token() != 0) == leads {
			return h
		}
	}
	return nil
}

// Close kills all peers, at once, and unlocks the directories.
func (t *Trio) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
	defer cancel()
	var errs [Size]error
	var dying sync.WaitGroup
	for i, h := range t {
		if h != nil {
			dying.Go(func() { errs[i] = h.close(ctx) })
		}
	}
	dying.Wait()
	return errors.Join(errs[:]...)
}

func (h *Host) close(ctx context.Context) error {
	err := h.Kill(ctx)
	if h.dir != nil {
		err = errors.Join(err, h.dir.Close())
	}
	for _, release := range h.release {
		release()
	}
	return err
}

// Name is that of the peer.
func (h *Host) Name() string { return h.Config.Name }

// URL is the address of the peer's REST API.
func (h *Host) URL() string { return "http://" + h.Config.API.Listen }

// Peer returns the living peer, nil while it is dead.
func (h *Host) Peer() *app.Peer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		return nil
	}
	return h.life.peer
}

// Start brings the peer to life and waits until it serves linearizable reads.
func (h *Host) Start(ctx context.Context) (err error) {
	l := new(life)
	o := app.Options{
		Config: h.Config, Dir: h.dir, Binary: h.Binary, Logger: h.log, Wall: h.Wall, Random: h.Random,
		Exit: func(code int, why error) {
			if !l.killed.Load() {
				h.GaveUp(fmt.Errorf("%s gave up with exit code %d: %w", h.Name(), code, why))
			}
		},
	}
	if h.Change != nil {
		h.Change(&o, &l.killed)
	}
	if l.peer, err = app.New(ctx, o); err != nil {
		return fmt.Errorf("start %s: %w", h.Name(), err)
	}
	h.mu.Lock()
	h.life = l
	h.mu.Unlock()
	return Ready(ctx, l.peer)
}

// Ready returns once a peer serves linearizable reads and has a session, or ctx ends.
func Ready(ctx context.Context, p *app.Peer) error {
	return Until(ctx, p.Identity().Name+" to be ready", func() bool {
		_, err := p.Core().Store.Read(ctx)
		return err == nil && !p.Core().Session.ID().IsZero()
	})
}

// Stop ends the peer, if it lives, as a service manager does.
func (h *Host) Stop(ctx context.Context) error {
	if l := h.die(); l != nil {
		return l.peer.Stop(ctx)
	}
	return nil
}

// Kill ends the peer, if it lives, as the death of its process would.
func (h *Host) Kill(ctx context.Context) error {
	l := h.die()
	if l == nil {
		return nil
	}
	l.killed.Store(true)
	return l.peer.Kill(ctx)
}

func (h *Host) die() *life {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.life
	h.life = nil
	return l
}

// Until waits for cond, looking every few milliseconds.
func Until(ctx context.Context, what string, cond func() bool) error {
	for range pace.Every(ctx, Poll) {
		if cond() {
			return nil
		}
	}
	return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
}
