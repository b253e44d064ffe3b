package simtest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore"
)

// bare is a cluster of stores without runners: leadership is taken by hand, so
// that a handle can be used when a runner would have ended it long ago.
type bare struct {
	*Cluster
	mu     sync.Mutex // of stores, which voters' answers read next to the test
	stores map[string]*raftstore.Store
	gates  map[string]*Gate
	ports  map[string]*Transport
}

func simulateStores(t *testing.T, n int, seed uint64, f func(*testing.T, *bare)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bare{Cluster: newCluster(t, n, seed), stores: map[string]*raftstore.Store{}, gates: map[string]*Gate{},
			ports: map[string]*Transport{}}
		for _, p := range b.Peers {
			b.open(p)
		}
		defer b.close()
		f(t, b)
	})
}

func (b *bare) open(p *Peer) *Store {
	gate := NewGate()
	port := b.Net.Endpoint(p.Name, raft.ServerAddress(p.address()), gate)
	disk := p.Disk.Mount(gate)
	store, err := raftstore.Open(raftstore.Options{
		ID: p.Name, Storage: raftstore.Storage{Log: disk, Stable: disk, Snapshots: disk.Snapshots()},
		Transport: port, Forward: bareForwarder{forwarder{p}, b}, Timing: b.Timing, Wall: p.wall,
		Monotonic: func() time.Duration { return time.Since(epoch) },
		Logger:    b.logger(p, gate), Fatal: func(err error) { b.T.Error(err) },
	})
	b.must(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stores[p.Name], b.gates[p.Name], b.ports[p.Name] = store, gate, port
	return disk
}

// bareForwarder asks the stores of a bare cluster for ages.
type bareForwarder struct {
	forwarder
	b *bare
}

// Age implements raftstore.Forwarder.
func (f bareForwarder) Age(ctx context.Context, voter raftstore.Server, term uint64) (time.Duration, error) {
	return Call(ctx, f.b.Net, f.from.Name, voter.ID, func(context.Context) (time.Duration, error) {
		f.b.mu.Lock()
		store := f.b.stores[voter.ID]
		f.b.mu.Unlock()
		return store.ServeAge(term)
	})
}

func (b *bare) close() {
	b.Net.HealAll()
	for _, p := range b.Peers {
		b.ports[p.Name].sever()
		p.Disk.Crash()
		b.gates[p.Name].Resume()
		b.must(b.stores[p.Name].Close(context.Background()))
	}
}

// elected waits until raft makes one of the named peers leader.
func (b *bare) elected(names ...string) (found string) {
	b.Until(successionLimit, "an election", func() bool {
		for _, name := range names {
			if role, _ := b.stores[name].Role(); role.Leader && !b.gates[name].Paused() {
				found = name
			}
		}
		return found != ""
	})
	return found
}

func (b *bare) lead(name string) *raftstore.Leadership {
	b.T.Helper()
	var l *raftstore.Leadership
	b.Until(successionLimit, name+" leads", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var err error
		l, err = b.stores[name].Lead(ctx, fsm.Lead{Peer: name, Boot: "b"})
		return err == nil
	})
	return l
}

func names(peers []*Peer) (out []string) {
	for _, p := range peers {
		out = append(out, p.Name)
	}
	return out
}

// proofs are how far back proofs begin: now, and where a guard holds what is held.
var proofs = []time.Duration{0, 60 * time.Millisecond}

func proves(l *raftstore.Leadership, t0 time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return l.Confirm(ctx, t0)
}

// A peer that is elected again must not lend the new term's proof to what it
// began in the old one: its token is stale.
func TestConfirmIsBoundToItsTerm(t *testing.T) {
	simulateStores(t, 3, 3, func(t *testing.T, b *bare) {
		first := b.elected(names(b.Peers)...)
		old := b.lead(first)
		if err := proves(old, time.Now()); err != nil {
			t.Fatalf("a healthy leader is not confirmed: %v", err)
		}
		b.Net.Isolate(first)
		next := b.elected(names(b.Others(b.Peer(first)))...)
		b.lead(next)
		b.Net.HealAll()
		b.Until(successionLimit, "the first leader is leader again", func() bool {
			if role, _ := b.stores[first].Role(); role.Leader && role.Change > 1 {
				return true
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			// tried until it works
			_ = b.stores[next].Transfer(ctx, raftstore.Server{ID: first, Address: b.Peer(first).address()})
			return false
		})
		if err := proves(old, time.Now()); err == nil {
			t.Error(
				"confirm-bound-to-term: the handle of an ended leadership was confirmed by the acknowledgements of a later one")
		}
		if err := proves(b.lead(first), time.Now()); err != nil {
			t.Errorf("the new leadership is not confirmed: %v", err)
		}
	})
}

// A leader that was stopped while another was elected must not be confirmed,
// whatever answers to its old heartbeats are waiting for it.
func TestStoppedLeaderIsNotConfirmed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		simulateStores(t, 3, seed, func(t *testing.T, b *bare) {
			old := b.Peer(b.elected(names(b.Peers)...))
			l := b.lead(old.Name)
			others := b.Others(old)
			since := proofs[seed%2]
			if err := b.wake(l, old, others[0], others[1], others, since); err == nil {
				t.Errorf(
					"confirm-proves: seed %d: a leader that was stopped was told that no later leader had been elected, but one had",
					seed)
			}
		})
	}
}

// A non-voter's acknowledgement proves nothing: it elects nobody.
func TestNonVoterDoesNotConfirm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		simulateStores(t, 3, seed, func(t *testing.T, b *bare) {
			old := b.Peer(b.elected(names(b.Peers)...))
			l := b.lead(old.Name)
			extra := &Peer{Name: "h4", Disk: NewDisk(b.rng), c: b.Cluster}
			b.Peers = append(b.Peers, extra)
			b.open(extra)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			b.must(b.stores[old.Name].AddNonvoter(ctx, extra.Name, cluster.ServerAddress(extra.Name, "h4:7350")))
			b.Until(successionLimit, "the non-voter has caught up", func() bool {
				return b.stores[extra.Name].View().Index() == b.stores[old.Name].View().Index()
			})
			voters := b.Others(old)[:2]
			for _, v := range voters {
				b.Net.CutBoth(extra.Name, v.Name)
			}
			if err := b.wake(l, old, voters[0], extra, voters, proofs[seed%2]); err == nil {
				t.Errorf("confirm-proves: seed %d: a leader was confirmed by a non-voter after another leader had been elected",
					seed)
			}
		})
	}
}

// wake stops a leader in the middle of a write while an answer to its newest
// heartbeat waits in its socket, elects one of voters, and returns what Confirm
// says to the first leader as it continues. The answer of late comes in 1.5 ms
// after that. It is the recipe by which raft's own VerifyLeader is deceived. The proof begins
// a while before, though after the election.
func (b *bare) wake(l *raftstore.Leadership, old, prompt, late *Peer, voters []*Peer, while time.Duration) error {
	b.Net.SetDelay(2*time.Millisecond, 5*time.Millisecond)
	store := b.stores[old.Name]
	b.Net.Cut(late.Name, old.Name)
	before := make(chan error, 1)
	go func() { before <- proves(l, time.Now()) }() // heartbeats, as a guard sends all the time
	time.Sleep(time.Millisecond)                    // in a bubble
	b.gates[old.Name].Pause()
	write := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := store.Propose(ctx, fsm.Header{}, settings.PutSetting{Key: "never-acknowledged", Value: "x"})
		write <- err
	}()
	time.Sleep(20 * time.Millisecond) // in a bubble: the prompt answer has arrived
	b.Net.Cut(prompt.Name, old.Name)
	next := b.elected(names(voters)...)
	for _, v := range voters {
		b.Net.Cut(v.Name, old.Name)
	}
	b.lead(next)
	time.Sleep(1300 * time.Millisecond) // in a bubble
	verdict := make(chan error, 1)
	go func() { verdict <- proves(l, time.Now().Add(-while)) }()
	time.Sleep(time.Microsecond) // in a bubble
	b.gates[old.Name].Resume()
	time.Sleep(1500 * time.Microsecond) // in a bubble
	b.Net.Mend(late.Name, old.Name)
	defer b.Net.HealAll()
	<-before
	<-write
	return <-verdict
}
