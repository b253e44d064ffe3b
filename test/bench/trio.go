package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/config"
)

// size is how many peers a cluster has here.
const size = 3

// formLimit bounds what it takes until three peers vote.
const formLimit = 30 * time.Second

// poll is the pause between two looks at something that is waited for.
const poll = 5 * time.Millisecond

// trio is a cluster of three real peers in this process: sockets on loopback,
// mutual TLS, and logs on disk.
type trio struct {
	peers [size]*slot
	log   *os.File // what the peers log
}

// slot is one place in the cluster; its peer comes and goes.
type slot struct {
	host datadir.Host
	dir  *datadir.Dir
	peer *app.Peer
	log  *slog.Logger
}

// newTrio founds a cluster below root whose peers keep their logs in this
// raft.log_store, and waits until all three vote.
func newTrio(ctx context.Context, root, store string) (t *trio, err error) {
	f, err := os.Create(filepath.Join(root, "peers.log"))
	if err != nil {
		return nil, fmt.Errorf("log of the peers: %w", err)
	}
	t = &trio{log: f}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close(ctx))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, formLimit)
	defer cancel()
	for i := range t.peers {
		if t.peers[i], err = newSlot(root, store, i, f); err != nil {
			return t, err
		}
	}
	first := t.peers[0]
	founding, err := first.host.Init(first.dir)
	if err != nil {
		return t, fmt.Errorf("found a cluster: %w", err)
	}
	if err := first.start(ctx); err != nil {
		return t, err
	}
	for _, s := range t.peers[1:] {
		if _, err := s.host.Join(ctx, s.dir, founding.Identity.Address, founding.Token); err != nil {
			return t, fmt.Errorf("join: %w", err)
		}
		if err := s.start(ctx); err != nil {
			return t, err
		}
	}
	return t, t.awaitVoters(ctx)
}

func newSlot(root, store string, i int, log *os.File) (*slot, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	c := config.Default()
	c.Name = fmt.Sprintf("peer%d", i+1)
	c.DataDir = filepath.Join(root, c.Name)
	c.Socket = filepath.Join(root, c.Name+".sock")
	c.API.Listen, c.API.AuthStrategy = "127.0.0.1:0", "noauth"
	c.Firewall.Driver, c.Raft.LogStore = "noop", store
	c.Cluster.Listen, c.Gossip.Listen = ports[0], ports[1]
	dir, err := datadir.Open(c.DataDir)
	if err != nil {
		return nil, err
	}
	return &slot{
		host: datadir.Host{Config: c, Binary: "bench", Wall: time.Now, Random: rand.Reader},
		dir:  dir,
		log:  slog.New(slog.NewTextHandler(log, nil)).With("host", c.Name),
	}, nil
}

// start runs the peer and waits until it serves linearizable reads.
func (s *slot) start(ctx context.Context) (err error) {
	s.peer, err = app.New(ctx, app.Options{
		Config: s.host.Config, Dir: s.dir, Binary: s.host.Binary, Logger: s.log, Wall: s.host.Wall, Random: s.host.Random,
		Exit: func(code int, why error) {
			s.log.Error("peer exits", "code", code, "reason", why)
			os.Exit(code)
		},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", s.host.Config.Name, err)
	}
	if err := s.peer.Ready(ctx); err != nil {
		return fmt.Errorf("%s is not ready: %w", s.host.Config.Name, err)
	}
	return nil
}

func (s *slot) stop(ctx context.Context) error {
	if s == nil || s.peer == nil {
		return nil
	}
	p := s.peer
	s.peer = nil
	return p.Stop(ctx)
}

func (t *trio) awaitVoters(ctx context.Context) error {
	return until(ctx, "three voters", func() bool {
		voters := 0
		for _, srv := range t.peers[0].peer.Core().Store.Servers() {
			if srv.Voter {
				voters++
			}
		}
		return voters == size && t.leader() != nil
	})
}

// leader returns the peer that leads and has all its duties, nil if none does.
func (t *trio) leader() *app.Peer {
	for _, s := range t.peers {
		if s.peer != nil && s.peer.Core().Runner.Token() != 0 {
			return s.peer
		}
	}
	return nil
}

// follower returns a slot whose peer does not lead.
func (t *trio) follower() *slot {
	for _, s := range t.peers {
		if s.peer != nil && s.peer.Core().Runner.Token() == 0 {
			return s
		}
	}
	return nil
}

func (t *trio) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), formLimit)
	defer cancel()
	var errs []error
	for _, s := range t.peers {
		errs = append(errs, s.stop(ctx))
		if s != nil {
			errs = append(errs, s.dir.Close())
		}
	}
	return errors.Join(append(errs, t.log.Close())...)
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

// freePorts returns loopback addresses whose TCP ports were free a moment ago.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer ln.Close()
		out = append(out, ln.Addr().String())
	}
	return out, nil
}
