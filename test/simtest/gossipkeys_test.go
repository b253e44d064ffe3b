package simtest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// keyring is the gossip keys of one host: those on its disk outlive its processes.
type keyring struct {
	disk, used cluster.Ring
	runs       *process // whose used is; nil: none runs
}

// keyrings are those of a cluster. Whenever one changes, all that run are held
// against each other: nobody may speak under a key that another does not take.
type keyrings struct {
	c     *Cluster
	mu    sync.Mutex
	of    map[string]*keyring
	moves int // changes of a ring in use
	work  sync.WaitGroup
}

// withKeys has every process of every host follow the log's gossip keys, until the
// test ends.
func (c *Cluster) withKeys(ctx context.Context) *keyrings {
	k := &keyrings{c: c, of: make(map[string]*keyring)}
	founded := cluster.RingOf(c.founded().View())
	for _, p := range c.Peers {
		k.of[p.Name] = &keyring{disk: founded}
	}
	for _, p := range c.Peers {
		k.work.Go(func() { k.host(ctx, p) })
	}
	return k
}

// host runs a follower for each process of a host, one after the other.
func (k *keyrings) host(ctx context.Context, p *Peer) {
	const look = 20 * time.Millisecond
	end, follower := func() {}, sync.WaitGroup{}
	defer func() { end(); follower.Wait() }()
	for last := (*process)(nil); ctx.Err() == nil; time.Sleep(look) { // in a bubble
		proc := p.run.Load()
		if proc == last {
			continue
		}
		end()
		follower.Wait()
		last = proc
		k.began(p.Name, proc)
		if proc == nil {
			continue
		}
		life, cancel := context.WithCancel(ctx)
		end = cancel
		f := cluster.NewRingFollower(cluster.RingOptions{
			Peer: p.Name, Now: k.get(p.Name).disk, View: proc.core.Store.View, Do: proc.core.Session,
			Logger: slog.New(slog.DiscardHandler),
			Put: []func(cluster.Ring) error{
				func(r cluster.Ring) error { return k.put(p.Name, func(h *keyring) { h.disk = r }) },
				func(r cluster.Ring) error { return k.put(p.Name, func(h *keyring) { h.used = r }) },
			},
		})
		follower.Go(func() { f.Run(life) })
	}
}

// began notes that a process runs, with the keys of the disk, or that none does.
func (k *keyrings) began(name string, proc *process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.of[name]
	h.runs, h.used = proc, h.disk
	k.compare()
}

func (k *keyrings) get(name string) keyring {
	k.mu.Lock()
	defer k.mu.Unlock()
	return *k.of[name]
}

func (k *keyrings) put(name string, change func(*keyring)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k.of[name])
	k.moves++
	k.compare()
	return nil
}

// caughtUp is how long after the beginning of its session a peer that was away may
// still speak under the key that it had. The time begins when the peer itself has
// applied the beginning: one whose disk is full reads no newer key from the log.
const caughtUp = 3 * time.Second

// compare demands that each peer that lives takes the key under which the others speak.
// A peer whose session ended is one that the rotation did not wait for.
func (k *keyrings) compare() {
	v, ok := k.c.newest()
	if !ok {
		return
	}
	lives := func(name string) bool {
		proc := k.of[name].runs
		if proc == nil {
			return false
		}
		own := proc.core.Store.View()
		s, open := v.SessionOf(name)
		applied, known := own.SessionOf(name)
		return open && known && applied.ID == s.ID && own.Now().Sub(s.Opened) > caughtUp
	}
	for from, speaks := range k.of {
		for to, hears := range k.of {
			if !lives(from) || !lives(to) {
				continue
			}
			key := speaks.used.Keys[0]
			if !slices.ContainsFunc(hears.used.Keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
				k.c.Oracle.broken("gossip-is-understood: %s speaks under a key of entry %v, %s has those of entry %v", from,
					speaks.used.Changed, to, hears.used.Changed)
			}
		}
	}
}

// everywhere reports whether all hosts have one key alone, and that.
func (k *keyrings) everywhere(key []byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.of {
		if len(h.used.Keys) != 1 || !bytes.Equal(h.used.Keys[0], key) || h.disk.Changed != h.used.Changed {
			return false
		}
	}
	return true
}

// TestGossipKeyIsRotatedThroughLosses rotates the key again and again while leaders
// are lost in every way, at every stage: each rotation ends, by whoever leads then, and at
// no time a peer speaks under a key that another does not take.
func TestGossipKeyIsRotatedThroughLosses(t *testing.T) {
	const rotations = 12
	Simulate(t, 3, 71, func(c *Cluster) {
		ctx, stop := context.WithCancel(context.Background())
		k := c.withKeys(ctx)
		defer k.work.Wait()
		defer stop()
		c.settle(0)
		losses, struck := Losses(), make(map[membership.GossipStage]int)
		rotate := func(i int) {
			key := bytes.Repeat([]byte{byte(i + 1)}, membership.GossipKeySize)
			c.rotate(key)
			for j := range 2 {
				time.Sleep(time.Duration(c.rng.IntN(1500)) * time.Millisecond) // in a bubble
				struck[c.AwaitLeader(successionLimit).Core().Store.View().GossipRotation().Stage]++
				c.Lose(losses[(2*i+j)%len(losses)])
			}
			c.Until(2*membership.GossipStepTimeout, "the rotation ends, and every host has the new key alone", func() bool {
				c.revive()
				leader := c.Leader()
				return leader != nil && leader.Core().Store.View().GossipRotation().Stage == membership.GossipSettled &&
					k.everywhere(key)
			})
		}
		unstruck := func() string {
			for _, stage := range []membership.GossipStage{membership.GossipAdding, membership.GossipUsing,
				membership.GossipDropping} {
				if struck[stage] == 0 {
					return fmt.Sprintf("leader lost while the rotation was at '%v'", stage)
				}
			}
			return ""
		}
		untilSeen(c.T, 5, unstruck, func(round int) {
			for i := range rotations {
				rotate(round*rotations + i)
			}
		})
		t.Logf("leaders lost by stage: %v; rings changed %d times", struck, k.moves)
	})
}

// rotate begins a rotation.
func (c *Cluster) rotate(key []byte) {
	c.T.Helper()
	c.Until(2*successionLimit, "a rotation begins", func() bool {
		leader := c.Leader()
		if leader == nil {
			return false
		}
		if leader.Core().Store.View().GossipRotation().Stage != membership.GossipSettled {
			return true
		}
		ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
		defer cancel()
		res, err := leader.Core().Session.Do(ctx, "", membership.RotateGossipKey{Key: key})
		return err == nil && res.Err() == nil
	})
}
