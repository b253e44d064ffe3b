//go:build e2e

package labtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestFullDisk fills the disk of a peer that follows, then of the same as it
// leads: it says so and leads no more, nothing that was acknowledged is lost, and
// it goes on by itself when there is space again. TestFullDirectory has elections
// and a crash meanwhile.
func TestFullDisk(t *testing.T) {
	testenv.NeedRoot(t, "mkfs.ext4", "mount", "umount")
	eachLogStore(t, fullDisk)
}

func fullDisk(t *testing.T, store string) {
	l := New(t)
	l.keepLogs(store)
	l.also(func(p *Peer) {
		if p.Name == "a" {
			p.Ext4()
		}
	})
	l.Trio("a", "b", "c")
	full, other := l.Peers[0], l.Peers[1]
	load := l.Write(4)
	pid := full.PID()

	l.lead(other)
	t.Log("a follower's disk fills")
	l.fillAndFree(full, load)

	l.lead(full)
	t.Log("the leader's disk fills")
	l.fillAndFree(full, load)

	if !full.running() || full.PID() != pid {
		t.Errorf("%s did not go on by itself: process %d, and it was %d", full.Name, full.PID(), pid)
	}
	load.Verify(l.WaitLeader())
	l.WaitVoters(3)
	l.WaitSame()
}

// lead makes p the leader. A busy machine may need more than one hand-over.
func (l *Lab) lead(p *Peer) {
	l.t.Helper()
	l.Eventually(2*growLimit, p.Name+" leads", func() error {
		leader := l.WaitLeader()
		if leader == p {
			return nil
		}
		r := leader.Trivet("transfer", p.Name, leader.On())
		if r.Code != 0 && strings.Contains(r.Err, raftguard.ErrTransferStuck.Error()) {
			r = leader.Trivet("transfer", leader.On()) // as it says: to another voter, which can ask again
		}
		if r.Code != 0 {
			return fmt.Errorf("%s refuses to lead for a while yet: %s", p.Name, r.Err)
		}
		return fmt.Errorf("%s leads", l.WaitLeader().Name)
	})
}

// transfer has the leader hand leadership over to whom it likes. A busy machine may
// need more than one try.
func (l *Lab) transfer() {
	l.t.Helper()
	l.Eventually(growLimit, "leadership is handed over", func() error {
		leader := l.WaitLeader()
		if r := leader.Trivet("transfer", leader.On()); r.Code != 0 {
			return fmt.Errorf("transfer by %s: exit %d: %s", leader.Name, r.Code, r.Err)
		}
		return nil
	})
}

// fillAndFree fills the peer's disk under load, looks at what is promised
// meanwhile, and takes away what filled it.
func (l *Lab) fillAndFree(p *Peer, load *Load) {
	l.t.Helper()
	junk := filepath.Join(p.Dir, "junk")
	testenv.Must(l.t, fill(junk))
	l.Eventually(growLimit, "an alarm, and another leader", func() error {
		if err := p.warns("disk_full", ""); err != nil {
			return err
		}
		if s, err := p.Status(); err != nil || s.Refuses == "" {
			return fmt.Errorf("it would lead (%v)", err)
		}
		for _, one := range l.Running() {
			if s, err := one.Status(); err != nil || s.Leader == p.Name || s.Leader == "" {
				return fmt.Errorf("%s names %q the leader (%v)", one.Name, s.Leader, err)
			}
		}
		free, err := p.figure("trivet_disk_free_bytes")
		if err == nil && free > 4<<20 {
			err = fmt.Errorf("the metric says that %.0f bytes are free", free)
		}
		return err
	})
	before := load.Acked()
	l.Eventually(growLimit, "writes go on", func() error { return atLeast(load.Acked(), before+300) })
	refusing, err := p.figure("trivet_disk_full")
	l.t.Logf("%d writes were acknowledged meanwhile; the log takes no entries: %v (%v)", load.Acked()-before,
		refusing == 1, err)
	testenv.Must(l.t, os.Remove(junk))
	await(l.t, growLimit, p.Name+" is well again", p.Status, func(s api.Status) bool {
		return p.warns("disk_full", "") != nil && s.Refuses == "" && s.Ready
	})
	l.WaitVoters(3)
}

// figure reads a metric that has no labels.
func (p *Peer) figure(name string) (float64, error) {
	reply, err := p.Ask("GET", "/metrics", nil)
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(reply.Body)
	if found == nil {
		return 0, fmt.Errorf("%s has no figure %s", p.Name, name)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
