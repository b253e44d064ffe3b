package dev

import (
	"cmp"
	"context"
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
	"github.com/trivet-ha/trivet/firewall"
)

const (
	size = 3 // peers
	poll = 20 * time.Millisecond
)

// slot is one peer's place: its directory and ports, which outlive it.
type slot struct {
	host   datadir.Host
	kernel *firewall.Memory // of its host
	dir    *datadir.Dir
	log    *slog.Logger

	mu   sync.Mutex // guards peer
	life *life      // nil while the peer is dead
}

// life is a peer between its start and its death.
type life struct {
	peer *app.Peer
	dead atomic.Bool // it was killed; what it says now does not count
}

func newSlots(root string, o Options, log *slog.Logger) (slots [size]*slot, err error) {
	const ports = 3 // of a peer
	free, err := freePorts(size*ports, o.Random)
	if err != nil {
		return slots, err
	}
	for i := range slots {
		c := config.Default()
		c.Name = fmt.Sprintf("peer%d", i+1)
		c.DataDir = filepath.Join(root, c.Name)
		c.Socket = filepath.Join(root, c.Name+".sock")
		c.API.AuthStrategy = "noauth"
		if o.Users != "" {
			c.API.AuthStrategy, c.API.HTTPBasicAuthUserFile = "http_basic", o.Users
		}
		c.API.Listen, c.Cluster.Listen, c.Gossip.Listen = free[ports*i], free[ports*i+1], free[ports*i+2]
		c.Inspection.Timeout, c.Inspection.CleanUpPeriod = cmp.Or(o.Timeout, inspectionTimeout), cleanUpPeriod
		c.Firewall.Driver = "noop"
		slots[i] = &slot{
			host:   datadir.Host{Config: c, Binary: o.Binary, Wall: o.Wall, Random: o.Random},
			kernel: newKernel(), log: log.With("host", c.Name),
		}
	}
	return slots, nil
}

func (s *slot) name() string { return s.host.Config.Name }

// url is the address of the peer's REST API.
func (s *slot) url() string { return "http://" + s.host.Config.API.Listen }

// living returns the peer, nil while it is dead.
func (s *slot) living() *app.Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		return nil
	}
	return s.life.peer
}

// leads reports whether the peer leads with all its duties.
func (s *slot) leads() bool {
	p := s.living()
	return p != nil && p.Core().Runner.Token() != 0
}

// start brings the peer to life and waits until it serves linearizable reads.
// gaveUp is told when the peer would end its process.
func (s *slot) start(ctx context.Context, gaveUp func(error)) error {
	l := new(life)
	peer, err := app.New(ctx, app.Options{
		Config: s.host.Config, Dir: s.dir, Binary: s.host.Binary, Logger: s.log, Wall: s.host.Wall, Random: s.host.Random, Kernel: process{s.kernel, &l.dead},
		Exit: func(code int, why error) {
			if !l.dead.Load() {
				gaveUp(fmt.Errorf("%s gave up with exit code %d: %w", s.name(), code, why))
			}
		},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", s.name(), err)
	}
	s.mu.Lock()
	l.peer, s.life = peer, l
	s.mu.Unlock()
	if err := peer.Ready(ctx); err != nil {
		return fmt.Errorf("%s is not ready: %w", s.name(), err)
	}
	return nil
}

// kill ends the peer, if it lives, as the death of its process would.
func (s *slot) kill(ctx context.Context) error {
	s.mu.Lock()
	l := s.life
	s.life = nil
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	l.dead.Store(true)
	return l.peer.Kill(ctx)
}

// trio is a cluster of three.
type trio struct {
	slots  [size]*slot
	tell   func(format string, args ...any)
	broken chan error // capacity 1: the first reason why the run cannot go on

	mu        sync.Mutex // guards all below
	pxe       services
	failovers []time.Duration
	struck    []time.Time // when leaders were killed
}

func newTrio(slots [size]*slot, tell func(string, ...any)) *trio {
	t := &trio{slots: slots, tell: tell, broken: make(chan error, 1)}
	for _, s := range slots {
		s.kernel.Opened = func() { t.opened(s) }
	}
	return t
}

func (t *trio) fail(err error) {
	select {
	case t.broken <- err:
	default: // an earlier reason is told already
	}
}

// form founds the cluster and returns when all three vote.
func (t *trio) form(ctx context.Context, ironic string) error {
	ctx, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	for _, s := range t.slots {
		s.host.Config.Ironic.Endpoint = ironic
		dir, err := datadir.Open(s.host.Config.DataDir)
		if err != nil {
			return err
		}
		s.dir = dir
	}
	first := t.slots[0]
	founding, err := first.host.Init(first.dir)
	if err != nil {
		return fmt.Errorf("found a cluster: %w", err)
	}
	if err := first.start(ctx, t.fail); err != nil {
		return err
	}
	for _, s := range t.slots[1:] {
		if _, err := s.host.Join(ctx, s.dir, founding.Identity.Address, founding.Token); err != nil {
			return fmt.Errorf("%s joins: %w", s.name(), err)
		}
		if err := s.start(ctx, t.fail); err != nil {
			return err
		}
	}
	return until(ctx, "three voters and a leader", func() bool { return t.voters() == size && t.leader() != nil })
}

// voters counts them as the first living peer sees it.
func (t *trio) voters() (n int) {
	for _, s := range t.slots {
		p := s.living()
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

// leader returns the slot of the peer that leads, nil if none does.
func (t *trio) leader() *slot {
	for _, s := range t.slots {
		if s.leads() {
			return s
		}
	}
	return nil
}

// close kills whoever lives, all at once, and unlocks the directories.
func (t *trio) close(ctx context.Context) error {
	errs := make([]error, size)
	var dying sync.WaitGroup
	for i, s := range t.slots {
		dying.Go(func() {
			if errs[i] = s.kill(ctx); s.dir != nil {
				errs[i] = errors.Join(errs[i], s.dir.Close())
			}
		})
	}
	dying.Wait()
	return errors.Join(errs...)
}

// until waits for cond, looking every few milliseconds.
func until(ctx context.Context, what string, cond func() bool) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}

// pause waits, or returns why not.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
