package raftguard

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const lookTimeout = 300 * time.Millisecond

// lookers are servers of one cluster, in memory.
type lookers struct {
	t     *testing.T
	nets  []*raft.InmemTransport
	rafts []*raft.Raft
}

// inLookers runs f with n servers that have a leader.
func inLookers(t *testing.T, n int, looks bool, f func(l *lookers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lookers{t: t}
		var all raft.Configuration
		for i := range n {
			id := string(rune('a' + i))
			_, net := raft.NewInmemTransport(raft.ServerAddress(id))
			l.nets = append(l.nets, net)
			all.Servers = append(all.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
		}
		stop := make(chan struct{}) // closed when the test ends
		for i := range n {
			l.join(i)
			l.start(all, i, looks, stop)
		}
		defer func() {
			close(stop)
			for _, r := range l.rafts {
				if err := r.Shutdown().Error(); err != nil {
					t.Error(err)
				}
			}
		}()
		l.await(-1)
		f(l)
	})
}

func (l *lookers) start(all raft.Configuration, i int, looks bool, stop chan struct{}) {
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = all.Servers[i].ID, hclog.NewNullLogger()
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = lookTimeout, lookTimeout, lookTimeout*4/5
	store, snaps := raft.NewInmemStore(), raft.NewDiscardSnapshotStore()
	if err := raft.BootstrapCluster(c, store, store, snaps, l.nets[i], all); err != nil {
		l.t.Fatal(err)
	}
	r, err := raft.NewRaft(c, nothing{}, store, store, snaps, l.nets[i])
	if err != nil {
		l.t.Fatal(err)
	}
	l.rafts = append(l.rafts, r)
	if looks {
		go func() {
			if err := (Looks{r, c.LocalID, lookTimeout}).Run(stop); err != nil {
				l.t.Error(err)
			}
		}()
	}
}

// join connects a server with all others, and part takes it away from them.
func (l *lookers) join(i int) {
	for n, other := range l.nets {
		if n != i {
			other.Connect(l.nets[i].LocalAddr(), l.nets[i])
			l.nets[i].Connect(other.LocalAddr(), other)
		}
	}
}

func (l *lookers) part(i int) {
	l.nets[i].DisconnectAll()
	for n, other := range l.nets {
		if n != i {
			other.Disconnect(l.nets[i].LocalAddr())
		}
	}
}

// await returns the server that leads, other than one, and how long that took.
func (l *lookers) await(not int) (leads int, took time.Duration) {
	l.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) { // in a bubble
		for i, r := range l.rafts {
			if i != not && r.State() == raft.Leader {
				return i, time.Since(began)
			}
		}
	}
	l.t.Fatal("none leads")
	return 0, 0
}

// gaps takes the leader away many times, and returns how long there was none.
func (l *lookers) gaps() (all []time.Duration) {
	random := rand.New(rand.NewPCG(7, 7))
	for range 100 {
		old, _ := l.await(-1)
		time.Sleep(time.Second + time.Duration(random.Int64N(int64(time.Second)))) // in a bubble
		l.part(old)
		_, took := l.await(old)
		all = append(all, took)
		l.join(old)
		time.Sleep(time.Second) // in a bubble
	}
	slices.Sort(all)
	l.t.Logf("%d servers: without a leader: median %v, nine of ten %v, longest %v", len(l.rafts), all[50], all[89],
		all[99])
	return all
}

// raft itself is late, and mostly by more than half a timeout.
func TestRaftLooksLate(t *testing.T) {
	inLookers(t, 3, false, func(l *lookers) {
		if all := l.gaps(); all[50] < lookTimeout*3/2 {
			t.Errorf("raft-looks-late: the median is %v: raft is mended", all[50])
		}
	})
}

// A silent leader is replaced when a timeout is over and, for each voter that has to notice, the
// share by which it looks later, but for the time since its last heartbeat.
func TestLeaderIsReplacedInTurn(t *testing.T) {
	for n, later := range map[int]time.Duration{3: 1, 5: 2} {
		inLookers(t, n, true, func(l *lookers) {
			most := lookTimeout + later*lookTimeout/lookShare + 20*time.Millisecond
			if all := l.gaps(); all[len(all)-1] > most {
				t.Errorf("replaced-in-turn: %d servers had no leader for %v, want at most %v", n, all[len(all)-1], most)
			}
		})
	}
}

// The second voter in turn does not make raft look while it hears its leader, nor before its
// turn, nor when it was late itself: it gives what its leader has sent the time to be read.
func TestFollowerLooksInItsTurn(t *testing.T) {
	inLookers(t, 3, false, func(l *lookers) {
		for range 50 {
			leads, _ := l.await(-1)
			time.Sleep(time.Second) // in a bubble
			at := 2
			if leads == 2 {
				at = 1
			}
			r := l.rafts[at]
			looks := Looks{r, raft.ServerID(l.nets[at].LocalAddr()), lookTimeout}
			if again, err := looks.lookIfDue(0); err != nil || again < lookTimeout/2 || again > lookTimeout {
				t.Fatalf("in-its-turn: its leader is heard, and the next look is due in %v, %v", again, err)
			}
			l.part(leads)
			if l.silentFor(r, lookTimeout) && looks.inTurn(t) && l.silentFor(r, lookTimeout*5/4) {
				looks.late(t)
				return
			}
			l.join(leads)
			time.Sleep(time.Second) // in a bubble
		}
		t.Fatal("raft itself looked each time")
	})
}

// silentFor waits until a follower has heard nothing for d, and reports whether it is one still.
func (*lookers) silentFor(r *raft.Raft, d time.Duration) bool {
	for r.State() == raft.Follower && time.Since(r.LastContact()) < d {
		time.Sleep(time.Millisecond) // in a bubble
	}
	return r.State() == raft.Follower
}

// looked reports whether raft was made to look.
func (l Looks) looked() bool { return l.Raft.ReloadableConfig().HeartbeatTimeout != l.Heartbeat }

// inTurn asks the second voter in turn right after the timeout.
func (l Looks) inTurn(t *testing.T) bool {
	if again, err := l.lookIfDue(0); err != nil || again > lookTimeout/lookShare || l.looked() {
		t.Errorf("in-its-turn: right after the timeout the second voter looks again in %v, %v, and has looked: %v", again,
			err, l.looked())
	}
	return true
}

// late asks it when its turn has come, as if it was late, and in time.
func (l Looks) late(t *testing.T) {
	if again, err := l.lookIfDue(lookTimeout); err != nil || again != lookTimeout/lookShare || l.looked() {
		t.Errorf("in-its-turn: late, it looks again in %v, %v, and has looked: %v", again, err, l.looked())
	}
	_, err := l.lookIfDue(0)
	if synctest.Wait(); l.Raft.State() == raft.Follower || err != nil || !l.looked() {
		t.Errorf("in-its-turn: in time, it did not look: %v", err)
	}
}
