package simtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// Peer is one simulated host: its disk, name and wall clock outlive its
// processes, of which at most one runs.
type Peer struct {
	Name string // also its server ID
	Disk *Disk
	// Knows is the newest log version that the installed binary knows; 0: fsm.Version.
	Knows int
	// Kernel is that of the host; it outlives the process.
	Kernel *Kernel

	c    *Cluster
	port int    // 0: the usual one
	host string // "": named as the peer; else that of the former member whose host this is, or its address
	// gossip is where it gossips; credentials and ring are on its disk. Only with ports.
	gossip      string
	ring        cluster.Ring
	credentials *pki.Credentials
	notes       notebook
	skew        atomic.Int64            // of the wall clock, nanoseconds
	boot        int                     // only the test's own goroutine starts processes
	run         atomic.Pointer[process] // nil while none runs; one that is stopping does not count
	// latest is the process that was started last, running or not.
	latest    atomic.Pointer[process]
	leadToken atomic.Uint64 // token of the newest leadership that its duties began under

	home    string      // the name of its host; "": Name
	waits   atomic.Bool // to be admitted: no process is started
	leaving atomic.Bool // else to be told that it is removed is a fault
	told    atomic.Bool // that it is removed
}

// process is one run of trivet on a Peer.
type process struct {
	gate   *Gate
	port   *Transport
	core   *app.Core
	open   *openPort     // nil without ports
	exited chan struct{} // closed when the process ended itself
}

// hostName is the name of the peer's host.
func (p *Peer) hostName() string { return cmp.Or(p.home, p.Name) }

func (p *Peer) address() string { return cluster.ServerAddress(p.Name, p.hostport()) }

// hostport is where the others dial the host; its port may change between two
// processes.
func (p *Peer) hostport() string {
	return fmt.Sprintf("%s:%d", cmp.Or(p.host, p.Name), cmp.Or(p.port, 7350))
}

// wall is the host's clock on the wall.
func (p *Peer) wall() time.Time { return time.Now().Add(time.Duration(p.skew.Load())) }

// monotonic is the clock by which acknowledgements are timed.
func (p *Peer) monotonic() time.Duration {
	p.step("stamp")
	return p.sinceBoot()
}

// step tells the test of a step of the process.
func (p *Peer) step(what string) {
	if p.Kernel != nil {
		p.Kernel.met(what)
	}
}

// stepOrStop is step, and waits while the process is stopped.
func (p *Peer) stepOrStop(ctx context.Context, what string) {
	p.step(what)
	if proc := p.run.Load(); proc != nil {
		proc.gate.Wait(ctx.Done())
	}
}

// SetSkew sets the host's wall clock wrong. Monotonic time is not touched.
func (p *Peer) SetSkew(d time.Duration) { p.skew.Store(int64(d)) }

// Core returns the running process's core, nil while none runs.
func (p *Peer) Core() *app.Core {
	proc := p.run.Load()
	if proc == nil {
		return nil
	}
	return proc.core
}

// Start runs trivet on the host.
func (p *Peer) Start() error {
	p.boot++
	p.c.hosts.Store(p.Name, p)
	proc := &process{gate: NewGate(), exited: make(chan struct{})}
	proc.port = p.c.Net.Endpoint(p.Name, raft.ServerAddress(p.address()), proc.gate)
	disk := p.Disk.Mount(proc.gate)
	log := p.c.logger(p, proc.gate)
	options := app.CoreOptions{
		Raft: raftstore.Options{
			ID:        p.Name,
			Storage:   raftstore.Storage{Log: disk, Stable: disk, Snapshots: disk.Snapshots()},
			Transport: proc.port,
			Forward:   forwarder{p},
			Timing:    p.c.Timing,
			Logger:    log,
			Wall:      p.wall,
			Monotonic: p.monotonic,
			Fatal:     func(err error) { p.c.Fatal(p, err) },
		},
		Self: cluster.Self{Peer: p.Name, Boot: fmt.Sprintf("%s-%d", p.Name, p.boot), Binary: "sim",
			Knows: cmp.Or(p.Knows, fsm.Version)},
		Random: source{p.c.rng},
		Duties: p.c.duties(p, proc),

		Introspection: p.c.Introspection(p, proc.gate),
		Gate:          p.c.Gate(p, proc.gate),
		Failover:      p.c.Failover(p, proc.gate),
		Leader:        forwarder{p},
		Contact:       app.Contact{Prober: p.prober(), Machine: p.c.Machine(p)},
		Former:        formerAsker{p},
		Upgrade:       app.Upgrade{Hosts: upgradeHosts{p}, After: p.c.FinalizeAfter},
		Electing:      app.Electing{Elections: p.c.Elections, Bound: electorBound, Now: p.sinceBoot},
		Owner: app.Owner{
			Exit:       func(code int, why error) { p.exit(proc, code, why) },
			Removed:    p.removed,
			RolledBack: func(err error) { p.c.RolledBack(p, err) },
		},
	}
	err := p.c.ports.open(p, proc, &options)
	if err == nil {
		proc.core, err = app.StartCore(options)
	}
	if err == nil {
		if err = proc.open.serve(p, proc); err != nil {
			err = errors.Join(err, proc.core.Close(context.Background()))
		}
	}
	if err != nil {
		proc.port.sever()
		return fmt.Errorf("start %s: %w", p.Name, errors.Join(err, proc.open.shut()))
	}
	p.c.newest() // notes what the process before this one has applied
	p.latest.Store(proc)
	p.run.Store(proc)
	p.c.watch(p, proc)
	return nil
}

// removed is called when the leader says that the peer is no member.
func (p *Peer) removed() {
	if !p.leaving.Load() {
		p.c.Oracle.broken("member: %s was told that it is no member", p.Name)
	}
	p.told.Store(true)
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
	p.c.Oracle.exited(p.Name, code, why)
}

// Exited says whether the running process ended itself.
func (p *Peer) Exited() bool {
	proc := p.run.Load()
	if proc == nil {
		return false
	}
	select {
	case <-proc.exited:
		return true
	default:
		return false
	}
}

// Kill ends the process as SIGKILL does: nothing is handed on, what was not
// durable is lost.
func (p *Peer) Kill() error {
	proc := p.run.Swap(nil)
	if proc == nil {
		return nil
	}
	p.notes.end() // first: callers that are cut off make the process forget what it examined
	proc.port.sever()
	proc.open.kill()
	p.Disk.Crash()
	proc.gate.Kill()
	proc.gate.Resume()
	return proc.close()
}

// Stop ends the process as SIGTERM does.
func (p *Peer) Stop() error {
	proc := p.run.Swap(nil)
	err := proc.stop()
	p.Disk.Crash()
	return err
}

// stop resigns and closes the log. If leadership is not handed on, the others elect.
func (p *process) stop() error {
	_ = p.core.Resign(context.Background())
	return p.close()
}

// close ends the log and the peers' port, without handing leadership on.
func (p *process) close() error {
	defer p.port.sever() // raft closes it only where it is raft's transport
	p.open.hangUp()
	return errors.Join(p.core.Close(context.Background()), p.open.shut())
}

// Pause stops the process as SIGSTOP does; Resume lets it go on, believing
// that no time has passed.
func (p *Peer) Pause() { p.run.Load().gate.Pause() }

// Resume lets a paused process go on.
func (p *Peer) Resume() { p.run.Load().gate.Resume() }

func (p *Peer) paused() bool {
	proc := p.run.Load()
	return proc != nil && proc.gate.Paused()
}

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
	index, err := ask(ctx, f.from, leader, func(ctx context.Context, s *raftstore.Store) (uint64, error) {
		return s.ConfirmedIndex(ctx)
	})
	if errors.Is(err, cluster.ErrNotMember) {
		err = fmt.Errorf("%w: %w", logerr.ErrNoLeader, err) // as cluster.Forwarder
	}
	return index, err
}

// Age implements raftstore.Forwarder.
func (f forwarder) Age(ctx context.Context, voter raftstore.Server, term uint64) (time.Duration, error) {
	return ask(ctx, f.from, voter, func(ctx context.Context, s *raftstore.Store) (time.Duration, error) {
		to := f.from.c.Peer(voter.ID)
		to.stepOrStop(ctx, "question")
		age, err := s.ServeAge(term)
		to.stepOrStop(ctx, "answer")
		return age, err
	})
}

// AskLeader implements leaderrpc.Asker.
func (f forwarder) AskLeader(ctx context.Context, leader raftstore.Server, path string, question []byte) ([]byte,
	error) {
	to := f.from.c.Peer(leader.ID)
	return Call(ctx, f.from.c.Net, f.from.Name, leader.ID, func(ctx context.Context) ([]byte, error) {
		if core := to.Core(); core != nil {
			return core.AnswerLending(ctx, path, question)
		}
		return nil, logerr.ErrClosed
	})
}

// ask calls fn at another peer. A peer that has applied the removal of the
// caller refuses it, as cluster.Access does.
func ask[T any](ctx context.Context, from *Peer, leader raftstore.Server,
	fn func(context.Context, *raftstore.Store) (T, error)) (T, error) {
	to := from.c.Peer(leader.ID)
	return Call(ctx, from.c.Net, from.Name, leader.ID, func(ctx context.Context) (T, error) {
		var zero T
		core := to.Core()
		if core == nil {
			return zero, logerr.ErrClosed
		}
		if _, removed := core.Store.View().Removed(from.Name); removed {
			named := func(s raftstore.Server) bool { return s.ID == from.Name }
			if slices.ContainsFunc(core.Store.Servers(), named) {
				return zero, logerr.ErrBusy
			}
			return zero, cluster.ErrNotMember
		}
		return fn(ctx, core.Store)
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

// sameView says whether two peers have applied the same entries.
func sameView(a, b fsm.View) bool { return a.Index() == b.Index() }

// prober sends probes over the simulated network.
type prober struct{ from *Peer }

// prober returns nil unless the cluster's peers probe each other.
func (p *Peer) prober() cluster.Prober {
	if !p.c.Probes {
		return nil
	}
	return prober{p}
}

// Probe implements cluster.Prober.
func (o prober) Probe(ctx context.Context, m membership.Member) (cluster.Report, error) {
	to := o.from.c.Peer(m.ID)
	return Call(ctx, o.from.c.Net, o.from.Name, to.Name, func(context.Context) (cluster.Report, error) {
		core := to.Core()
		if core == nil {
			return cluster.Report{}, ErrRefused
		}
		return core.Contacts.Report(nil), nil
	})
}
