package simtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore"
)

// A follower that restarts just after it installed a snapshot, with the answer
// to its first entry lost, catches up all the same. Raft alone would install
// the same snapshot for ever (TestLostAnswerAfterSnapshotStrandsFollower).
func TestFollowerRestartedAfterSnapshotCatchesUp(t *testing.T) {
	t.Parallel()
	simulateStores(t, 3, 31, func(t *testing.T, b *bare) {
		lead := b.Peer(b.elected(names(b.Peers)...))
		l := b.lead(lead.Name)
		away := b.Others(lead)[0]
		b.kill(away)
		const beyondTrailing = 1100 // more entries than raft keeps behind a snapshot
		b.fill(l, beyondTrailing)
		b.must(b.stores[lead.Name].Snapshot(context.Background()))
		b.fill(l, 1)

		slow := Quality{MinDelay: 300 * time.Millisecond, MaxDelay: 300 * time.Millisecond}
		b.Net.SetLink(away.Name, lead.Name, slow)
		disk := b.open(away)
		b.Until(20*time.Second, "the entry after the snapshot is stored", func() bool {
			last, err := disk.LastIndex()
			return err == nil && last > beyondTrailing
		})
		b.kill(away) // the answer is under way
		b.Net.SetLink(away.Name, lead.Name, Quality{MinDelay: time.Millisecond, MaxDelay: time.Millisecond})
		b.open(away)
		b.Until(5*time.Second, "caught-up-after-snapshot: the follower has everything", func() bool {
			return b.stores[away.Name].View().Index() == b.stores[lead.Name].View().Index()
		})
	})
}

// A former leader whose log holds entries of its own at the end of the snapshot that it is sent, which
// were never committed, catches up. Raft alone would compare with those, and send the snapshot for ever.
func TestFormerLeaderCatchesUpBySnapshot(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]int{"idle": 0, "writes go on": 3} {
		t.Run(name, func(t *testing.T) {
			simulateStores(t, 3, 37, func(t *testing.T, b *bare) {
				former := b.Peer(b.elected(names(b.Peers)...))
				l := b.lead(former.Name)
				b.fill(l, 1)
				b.Net.Isolate(former.Name)
				const alone, beyondTrailing = 1500, 1200
				ctx, cancel := context.WithCancel(context.Background())
				for range alone { // it believes that it leads, until its lease ends
					go func() { _, _ = l.Propose(ctx, settings.PutSetting{Key: "alone", Value: "x"}) }()
				}
				lead := b.Peer(b.elected(names(b.Others(former))...))
				cancel()
				l = b.lead(lead.Name)
				b.fill(l, beyondTrailing)
				b.must(b.stores[lead.Name].Snapshot(context.Background()))
				b.Net.HealAll()
				b.fill(l, after)
				b.Until(20*time.Second, "former-leader-catches-up", func() bool {
					return b.stores[former.Name].View().Index() == b.stores[lead.Name].View().Index()
				})
			})
		})
	}
}

// A peer that is restarted again and again takes a snapshot as soon as one that runs on: the size
// of its log is that of before, also when it is asked for a snapshot before a leader told it how
// much of that was committed.
func TestLogOfARestartedPeerIsAsLarge(t *testing.T) {
	t.Parallel()
	simulateStores(t, 3, 43, func(t *testing.T, b *bare) {
		l := b.lead(b.elected(names(b.Peers)...))
		p := b.Peers[0]
		b.fill(l, 10)
		b.must(b.stores[p.Name].Snapshot(context.Background()))
		b.fill(l, 100)
		before := b.stores[p.Name].Stats().LogBytes
		b.kill(p)
		b.Net.Isolate(p.Name)
		b.open(p)
		b.must(b.stores[p.Name].Snapshot(context.Background())) // there is nothing new, as far as it knows
		if after := b.stores[p.Name].Stats().LogBytes; before == 0 || after < before {
			t.Errorf("log-size: %d bytes after a restart, %d before", after, before)
		}
		b.Net.HealAll()
	})
}

// kill ends a store's process as SIGKILL does.
func (b *bare) kill(p *Peer) {
	b.T.Helper()
	b.ports[p.Name].sever()
	p.Disk.Crash()
	b.must(b.stores[p.Name].Close(context.Background()))
}

// fill commits n settings.
func (b *bare) fill(l *raftstore.Leadership, n int) {
	b.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := range n {
		res, err := l.Propose(ctx, settings.PutSetting{Key: fmt.Sprintf("key-%d", i%50), Value: "x"})
		b.must(err)
		b.must(res.Err())
	}
}
