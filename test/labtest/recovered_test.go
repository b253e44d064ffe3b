//go:build e2e

package labtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// TestWipedHost replaces a host whose disk is gone under the same name and
// address. Its old disk, put back, is that of nobody.
func TestWipedHost(t *testing.T) {
	t.Parallel()
	l := Three(t)
	load := l.Write(3)
	wiped := l.Followers()[0]
	leader := l.WaitLeader()
	before := l.token(leader)
	old, err := wiped.Status()
	testenv.Must(t, err)
	wiped.Kill9()
	attic := wiped.Dir + ".old"
	testenv.Must(t, os.Rename(wiped.Dir, attic))
	if r := wiped.Trivet("serve", wiped.Flags()); r.Code != 2 ||
		!strings.Contains(r.Err, "no peer lives in this data directory") {
		t.Fatalf("serve on an empty disk: exit %d\n%s", r.Code, r.Err)
	}

	// Until its session has ended the old one may live: nobody takes its place.
	wiped.expect(t, 4, "lives: the name and the address are taken", "join", leader.Cluster, "--token", leader.Token(),
		wiped.Flags())
	wiped.Must("join", leader.Cluster, "--token", leader.Token(), "--wait", "30s", wiped.Flags())
	wiped.Start()
	l.WaitVoters(3)
	if s, err := wiped.Status(); err != nil || s.ID == old.ID || s.Name != old.Name {
		t.Fatalf("it is %s %s now and was %s %s (%v)", s.Name, s.ID, old.Name, old.ID, err)
	}

	// It wears the old identity once more: a disk that was found again.
	wiped.Stop()
	fresh := wiped.Dir + ".fresh"
	swap := func(from, to string) {
		t.Helper()
		testenv.Must(t, os.Rename(from, to))
	}
	swap(wiped.Dir, fresh)
	swap(attic, wiped.Dir)
	wiped.Spawn()
	if code := wiped.WaitExit(growLimit); code != 4 || !strings.Contains(wiped.Log(), "was removed from the cluster") {
		t.Fatalf("the old identity exited with %d, and must say why", code)
	}
	swap(wiped.Dir, attic)
	swap(fresh, wiped.Dir)
	wiped.Start()
	l.WaitVoters(3)
	leader = l.WaitLeader()
	load.Verify(leader)
	l.WaitSame()
	if now := l.token(leader); now < before {
		t.Errorf("token %d, before %d: tokens never fall", now, before)
	}
}

// TestRestoredElsewhere restores the snapshot of a cluster that is gone on new
// hosts, at the addresses of the old ones. An old host that comes back meets the
// later incarnation and stops.
func TestRestoredElsewhere(t *testing.T) {
	t.Parallel()
	before := Three(t)
	load := before.Write(3)
	before.Eventually(electLimit, "some writes", func() error { return atLeast(load.Acked(), 200) })
	load.Stop()
	leader := before.WaitLeader()
	file := filepath.Join(before.dir, "backup.snap")
	leader.Must("snapshot", "save", file, leader.On())
	oldToken, ticket := before.token(leader), leader.Token()
	for _, p := range before.Peers {
		p.Kill9()
	}

	after := New(t)
	for i, name := range []string{"a", "b", "c"} {
		p, there := after.Add(name), before.Peers[i]
		p.Cluster, p.Gossip = there.Cluster, there.Gossip
		if i == 0 {
			p.Must("snapshot", "restore", file, p.Flags())
		} else {
			founder := after.WaitLeader()
			p.expect(t, 7, "", "join", founder.Cluster, "--token", ticket, p.Flags())
			p.Join(founder)
		}
		p.Start()
	}
	after.WaitVoters(3)
	leader = after.WaitLeader()
	if now := after.token(leader); now <= oldToken {
		t.Errorf("token %d on the new hosts, %d on the old: it must rise", now, oldToken)
	}
	load.Verify(leader)
	after.WaitSame()

	old, fresh := before.Peers[2], after.Peers[2]
	fresh.Stop()
	old.Spawn()
	if code := old.WaitExit(electLimit); code != 4 || !strings.Contains(old.Log(), "lives in a higher incarnation") {
		t.Errorf("an old host that came back exited with %d, want 4 and the reason", code)
	}
	fresh.Start()
	after.WaitVoters(3)
	load.Verify(after.WaitLeader())
	after.WaitSame()
}
