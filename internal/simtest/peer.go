package simtest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/leader"
	"github.com/trivet-ha/trivet/raftstore"
)

// Peer is one simulated host: its disk, name and wall clock outlive its
// processes, of which at most one runs.
type Peer struct {
	Name string // also its server ID
	Disk *Disk

	c    *Cluster
	skew time.Duration // of the wall clock
	boot int
	proc *process
}

// process is one run of trivet on a Peer.
type process struct {
	gate   *Gate
	port   *Transport
	core   *app.Core
	exited chan struct{} // closed when the process ended itself
	dead   bool
}

func (p *Peer) address() string { return cluster.ServerAddress(p.Name, p.Name+":7350") }

// wall is the host's clock on the wall.
func (p *Peer) wall() time.Time { return time.Now().Add(p.skew) }

// SetSkew sets the host's wall clock wrong. Monotonic time is not touched.
func (p *Peer) SetSkew(d time.Duration) { p.skew = d }

// Core returns the running process's core, nil while none runs.
func (p *Peer) Core() *app.Core {
	if p.proc == nil {
		return nil
	}
	return p.proc.core
}

// Start runs trivet on the host.
func (p *Peer) Start() error {
	p.boot++
	proc := &process{gate: NewGate(), exited: make(chan struct{})}
	proc.port = p.c.Net.Endpoint(p.Name, raft.ServerAddress(p.address()), proc.gate)
	disk := p.Disk.Mount(proc.gate)
	log := slog.New(proc.gate.Handler(p.c.log))
	core, err := app.StartCore(app.CoreOptions{
		Raft: raftstore.Options{
			ID:        p.Name,
			Storage:   raftstore.Storage{Log: disk, Stable: disk, Snapshots: disk.Snapshots()},
			Transport: proc.port,
			Forward:   forwarder{p},
			Timing:    p.c.Timing,
			Logger:    log,
			Wall:      p.wall,
			Fatal:     func(err error) { p.c.Oracle.broken("unknown-entry: %s met an entry it does not know: %v", p.Name, err) },
		},
		Self:   cluster.Self{Peer: p.Name, Boot: fmt.Sprintf("%s-%d", p.Name, p.boot), Binary: "sim"},
		Wall:   p.wall,
		Random: source{p.c.rng},
		Duties: p.c.duties(p, proc),
		Exit:   func(code int, why error) { p.exit(proc, code, why) },
		Logger: log,
	})
	if err != nil {
		proc.port.sever()
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	proc.core = core
	p.proc = proc
	p.c.watch(p, proc)
	return nil
}

// exit is what happens when the process ends itself: the cluster's driver
// finds it dead and may start it anew.
func (p *Peer) exit(proc *process, code int, why error) {
	select {
	case <-proc.exited:
		return
	default:
	}
	close(proc.exited)
	p.c.log.Handler().Enabled(context.Background(), slog.LevelInfo)
	p.c.Oracle.exited(p.Name, code, why)
}

// Exited says whether the running process ended itself.
func (p *Peer) Exited() bool {
	if p.proc == nil {
		return false
	}
	select {
	case <-p.proc.exited:
		return true
	default:
		return false
	}
}

// Kill ends the process as SIGKILL does: nothing is handed on, what was not
// durable is lost.
func (p *Peer) Kill() error {
	proc := p.proc
	if proc == nil || proc.dead {
		return nil
	}
	proc.dead = true
	proc.port.sever()
	p.Disk.Crash()
	proc.gate.Resume()
	p.proc = nil
	return proc.core.Close(context.Background())
}

// Stop ends the process as SIGTERM does.
func (p *Peer) Stop() error {
	proc := p.proc
	p.proc = nil
	proc.dead = true
	err := proc.core.Stop(context.Background())
	p.Disk.Crash()
	return err
}

// Pause stops the process as SIGSTOP does; Resume lets it go on, believing
// that no time has passed.
func (p *Peer) Pause() { p.proc.gate.Pause() }

// Resume lets a paused process go on.
func (p *Peer) Resume() { p.proc.gate.Resume() }

// forwarder is the peers' HTTP/2 port on the simulated network.
type forwarder struct{ from *Peer }

// Propose implements raftstore.Forwarder.
func (f forwarder) Propose(ctx context.Context, leader raftstore.Server, payload []byte) ([]byte, error) {
	return ask(ctx, f.from, leader, func(ctx context.Context, s *raftstore.Store) ([]byte, error) {
		return s.ServeProposal(ctx, payload)
	})
}

// ReadIndex implements raftstore.Forwarder.
func (f forwarder) ReadIndex(ctx context.Context, leader raftstore.Server) (uint64, error) {
	return ask(ctx, f.from, leader, func(ctx context.Context, s *raftstore.Store) (uint64, error) {
		return s.ConfirmedIndex(ctx)
	})
}

func ask[T any](ctx context.Context, from *Peer, leader raftstore.Server, fn func(context.Context, *raftstore.Store) (T, error)) (T, error) {
	to := from.c.Peer(leader.ID)
	return Call(ctx, from.c.Net, from.Name, leader.ID, func(ctx context.Context) (T, error) {
		if proc := to.proc; proc != nil && proc.core != nil {
			return fn(ctx, proc.core.Store)
		}
		var zero T
		return zero, raftstore.ErrClosed
	})
}

// source makes an io.Reader of the simulation's random numbers.
type source struct{ rng *rand.Rand }

// Read implements io.Reader.
func (s source) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(s.rng.Uint32())
	}
	return len(b), nil
}

// proposer keeps a leadership's authority beyond its end, as a lame duck would.
type proposer interface {
	leader.Authority
}

var _ proposer = leader.Reign(nil)

// sameView says whether two peers have applied the same entries.
func sameView(a, b fsm.View) bool { return a.Index() == b.Index() }
