package simtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/raftstore"
)

// formerLead is a leadership that proves itself again and again.
type formerLead struct {
	l           *raftstore.Leadership
	term, index uint64 // of an entry of it
	proven      []time.Time
	stop        context.CancelFunc
	done        chan struct{} // closed when it proves no more
}

// proving begins to prove the leadership of a peer, as often as it can.
func (b *bare) proving(name string) *formerLead {
	b.T.Helper()
	e := &formerLead{l: b.lead(name), term: b.stores[name].Stats().Term, index: b.stores[name].View().Index(),
		done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	e.stop = cancel
	go func() {
		defer close(e.done)
		for ctx.Err() == nil {
			t0 := time.Now()
			limited, cancel := context.WithTimeout(ctx, time.Second)
			if e.l.Confirm(limited, t0) == nil {
				e.proven = append(e.proven, t0)
			}
			cancel()
			time.Sleep(time.Millisecond) // in a bubble
		}
	}()
	return e
}

// ended returns when each proof began that has succeeded.
func (e *formerLead) ended() []time.Time {
	e.stop()
	<-e.done // in a bubble
	return e.proven
}

// succeeded leads with a peer and returns what the voters say of an earlier leadership.
func (b *bare) succeeded(name string, e *formerLead) (next *raftstore.Leadership, until time.Time) {
	b.T.Helper()
	next = b.lead(name)
	b.Until(successionLimit, "a majority has answered", func() (ok bool) {
		until, ok = next.Succeeds(e.term, e.index)
		return ok
	})
	return next, until
}

// soon is for how long after its loss a leader may still be acknowledged.
const soon = 10 * time.Millisecond

// judge compares what the new leader was told with the proofs of the earlier one, which was
// acknowledged for a while after it was lost.
func (b *bare) judge(seed uint64, until, lost time.Time, while time.Duration, proven []time.Time) {
	b.T.Helper()
	if len(proven) == 0 {
		b.T.Fatalf("seed %d: the earlier leader was never proven", seed)
	}
	if newest := slices.MaxFunc(proven, time.Time.Compare); newest.After(until) {
		b.T.Errorf("no-older-proof: seed %d: a proof of the earlier leader began %v after what the voters told the next one",
			seed, newest.Sub(until))
	}
	if late := until.Sub(lost); late > while {
		b.T.Errorf("ages-are-of-acknowledgements: seed %d: the voters tell of a proof %v after the earlier leader was lost",
			seed, late)
	}
}

// A leader is lost, and goes on later as if nothing had happened: the next one knows from
// the voters at what time it was proven last.
func TestVotersTellOfTheLastProof(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		simulateStores(t, 3+2*int(seed%2), 700+seed, func(t *testing.T, b *bare) {
			old := b.Peer(b.elected(names(b.Peers)...))
			e := b.proving(old.Name)
			time.Sleep(time.Second + time.Duration(b.rng.IntN(200))*time.Millisecond) // in a bubble
			lost, while := time.Now(), soon
			switch seed % 4 {
			case 0:
				b.Net.Isolate(old.Name)
			case 1:
				b.Net.IsolateInbound(old.Name)
				while = b.Timing.Lease + b.Timing.Heartbeat // the others hear it until it steps down
			case 2:
				b.Net.IsolateOutbound(old.Name)
			case 3:
				b.gates[old.Name].Pause()
			}
			_, until := b.succeeded(b.elected(names(b.Others(old))...), e)
			b.gates[old.Name].Resume()
			b.Net.HealAll()
			time.Sleep(time.Second) // in a bubble: late answers come in
			b.judge(seed, until, lost, while, e.ended())
		})
	}
}

// A leader is its own voter: where the others that acknowledged it are lost, its own
// acknowledgement is the only trace of its last proof.
func TestLeaderAcknowledgesItself(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		simulateStores(t, 3, 800+seed, func(t *testing.T, b *bare) {
			old := b.Peer(b.elected(names(b.Peers)...))
			e := b.proving(old.Name)
			others := b.Others(old)
			b.Until(successionLimit, "all have the same log", func() bool {
				return b.stores[others[0].Name].Stats().LastIndex == b.stores[old.Name].Stats().LastIndex
			})
			b.Net.CutBoth(old.Name, others[0].Name)
			time.Sleep(time.Second) // in a bubble: the other voter alone acknowledges
			b.Net.Isolate(others[1].Name)
			lost := time.Now()
			b.Until(successionLimit, "the leader steps down", func() bool {
				role, _ := b.stores[old.Name].Role()
				return !role.Leader
			})
			time.Sleep(rpcTimeout + time.Second) // in a bubble: what was sent is given up
			b.Net.Mend(old.Name, others[0].Name)
			b.Net.Mend(others[0].Name, old.Name)
			_, until := b.succeeded(b.elected(old.Name, others[0].Name), e)
			b.judge(seed, until, lost, time.Minute, e.ended()) // there may have been a leader between the two
		})
	}
}

// Where the configuration changed after the earlier leader's entry, its majorities and those
// of the next leader need not share a voter. All know of a change, after a restart too; and
// a voter that was restarted knows of nothing before that.
func TestConfigurationThatChangedSinceIsNoSuccession(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		simulateStores(t, 3, 850, func(t *testing.T, b *bare) {
			old := b.Peer(b.elected(names(b.Peers)...))
			before := b.proving(old.Name)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			extra := &Peer{Name: "h4", Disk: NewDisk(b.rng), c: b.Cluster}
			b.Peers = append(b.Peers, extra)
			b.open(extra)
			b.must(b.stores[old.Name].AddNonvoter(ctx, extra.Name, extra.address()))
			after := &formerLead{term: before.term, index: b.stores[old.Name].View().Index()}
			if known := before.l.Configured(); known <= before.index || known > after.index {
				t.Errorf("newest-configuration: it is that of index %d, and was made after %d, before %d", known, before.index,
					after.index)
			}
			proven := before.ended()
			lost, voters := time.Now(), b.Others(old)
			if restart {
				b.close()
				for _, p := range b.Peers {
					b.open(p)
				}
				voters = b.Peers
			} else {
				b.Net.Isolate(old.Name)
			}
			next := b.elected(names(voters)...)
			l, until := b.succeeded(next, after)
			if _, ok := l.Succeeds(before.term, before.index); ok {
				t.Error(
					"changed-configuration: the voters' answers count although the configuration changed after the earlier leader's entry")
			}
			if _, ok := l.Succeeds(b.stores[next].Stats().Term, after.index); ok {
				t.Error("own-door: a leadership succeeds itself")
			}
			if restart && until.Before(lost) {
				t.Errorf("restarted-voters: they tell of the time %v before their start", lost.Sub(until))
			}
			if !restart {
				b.judge(850, until, lost, soon, proven)
			}
		})
	}
}
