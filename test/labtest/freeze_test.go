//go:build e2e

package labtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/raftstore/leader"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

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
