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
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/raftstore/leader"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
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

// frozenLeader returns a lab of three whose leader has its data directory on
// an ext4 of its own.
func frozenLeader(t *testing.T) (*Lab, *Peer) {
	testenv.NeedRoot(t, "mount", "umount", "mkfs.ext4", "fsfreeze", "losetup")
	l := New(t)
	l.furnish = func(p *Peer) {
		if p.Name == "a" {
			p.Ext4()
		}
	}
	l.Trio("a", "b", "c")
	l.lead(l.Peers[0])
	return l, l.Peers[0]
}

// servedByOthers waits until a peer other than p takes writes.
func (l *Lab) servedByOthers(p *Peer, limit time.Duration) {
	l.t.Helper()
	l.Eventually(limit, "another serves writes", func() error {
		var last error
		for _, other := range l.Running() {
			s, err := other.Status()
			if other == p || err != nil || s.Leader == p.Name || s.Leader == "" {
				last = fmt.Errorf("%s says that %q leads (%v)", other.Name, s.Leader, err)
				continue
			}
			if last = other.Put("after.freeze", "1"); last == nil {
				return nil
			}
		}
		return last
	})
}

// diskHangs freezes the disk of a leader under load, and waits until another serves.
func diskHangs(t *testing.T) (l *Lab, p *Peer, load *Load, began time.Time) {
	l, p = frozenLeader(t)
	load = l.Write(4)
	l.Eventually(electLimit, "some writes", func() error { return atLeast(load.Acked(), 100) })
	p.Freeze()
	began = time.Now()
	l.servedByOthers(p, electLimit)
	testenv.Took(t, "labtest.disk_hangs_served", time.Since(began), 5*time.Second)
	return l, p, load, began
}

// TestDiskHangs freezes the leader's disk: it gives up and another serves, within
// 5 s if the figure meets its goal; thawed after 10 s it follows, in the same process.
func TestDiskHangs(t *testing.T) {
	t.Parallel()
	l, p, load, began := diskHangs(t)
	pid := p.PID()
	if s, err := p.Status(); err != nil || s.Role == "leader" && s.Refuses == "" {
		t.Errorf("the hung peer says %q, refuses %q (%v)", s.Role, s.Refuses, err)
	}
	testwait.Elapse(t, time.Until(began.Add(10*time.Second)), "the disk stays frozen")
	p.Thaw()
	l.Eventually(electLimit, "the thawed peer follows", func() error {
		p.startAgain()
		s, err := p.Status()
		switch {
		case err != nil:
			return err
		case s.Role != "follower" || s.Leader == "" || s.Leader == p.Name:
			return fmt.Errorf("it is %s, leader %q", s.Role, s.Leader)
		}
		return nil
	})
	if !p.wentOn(pid) {
		t.Fatal("the thawed peer is not the same process")
	}
	l.WaitVoters(3)
	load.Verify(l.WaitLeader())
	l.WaitSame()
}

// TestDiskHangsLong freezes it for a minute: it exits as soon as it thaws, with
// the code that makes the service manager start it again.
func TestDiskHangsLong(t *testing.T) {
	t.Parallel()
	if !longDays() {
		t.Skip("it takes more than a minute: TRIVET_E2E_LONG=1")
	}
	l, p, load, began := diskHangs(t)
	testwait.Elapse(t, time.Until(began.Add(60*time.Second)), "the disk stays frozen")
	p.Thaw()
	code := p.WaitExit(electLimit)
	if code != leader.ExitLostLeadership || !strings.Contains(p.Log(), "has been under way for") {
		t.Fatalf("exit %d after a minute, want %d and the reason", code, leader.ExitLostLeadership)
	}
	p.Start()
	l.WaitVoters(3)
	load.Verify(l.WaitLeader())
	l.WaitSame()
}
