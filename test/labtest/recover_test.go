//go:build e2e

package labtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestRecover loses two of three for ever and goes on with the third. When one
// of the lost comes back it must close and stop.
func TestRecover(t *testing.T) {
	t.Parallel()
	l := Three(t)
	load := l.Write(3)
	survivor, back, gone := l.Peers[0], l.Peers[1], l.Peers[2]
	l.Eventually(electLimit, "some writes", func() error { return atLeast(load.Acked(), 200) })
	load.Stop()
	old := survivor.Token()
	index := l.WaitSame()
	before := l.token(survivor)
	gone.Kill9()
	testenv.Must(t, os.RemoveAll(gone.Dir))

	refuse := func(code int, what string, words ...any) {
		t.Helper()
		survivor.Trivet(append(words, survivor.Flags())...).ended(t, code, what)
	}
	refuse(4, "another trivet process uses this data directory", "recover", "--dry-run")
	survivor.Stop()
	refuse(4, "peer b ("+back.Cluster+") runs", "recover", "--lost", "b,c")
	back.Kill9()
	refuse(4, "2 of 3 voters are not named lost, and a majority of them is 2", "recover", "--lost", "c")
	refuse(4, "3 of 3 voters are not named lost, and a majority of them is 2", "recover")
	refuse(2, "name the lost hosts: --lost NAME,NAME", "recover", "--yes-i-lost-the-majority")
	if out := survivor.Must("recover", "--dry-run", survivor.Flags()); !strings.Contains(out, "b (") ||
		!strings.Contains(out, "c (") {
		t.Fatalf("the dry run does not name the lost:\n%s", out)
	}
	survivor.Must("recover", "--lost", "b,c", survivor.Flags())
	survivor.Start()
	l.WaitLeader()
	load.Verify(survivor)
	if now := l.token(survivor); now <= before || now <= index {
		t.Fatalf("token %d after recover, %d before (index %d): it must rise", now, before, index)
	}

	gone.Trivet("join", survivor.Cluster, "--token", old, gone.Flags()).ended(t, 7)
	back.Spawn()
	if code := back.WaitExit(electLimit); code != 4 || !strings.Contains(back.Log(), "lives in a higher incarnation") {
		t.Fatalf("a lost peer that came back exited with %d, want 4 and the reason", code)
	}
	back.joinAnew(survivor)
	gone.Join(survivor)
	gone.Start()
	l.WaitVoters(3)
	load.Verify(l.WaitLeader())
	l.WaitSame()
}

// token returns the token of the leadership that p knows.
func (l *Lab) token(p *Peer) uint64 {
	l.t.Helper()
	s, err := p.Status()
	testenv.Must(l.t, err)
	return uint64(s.Token)
}

// TestSnapshotRestore puts an old state back: all peers are stopped, one is
// founded again from the snapshot, and two join it, one of them with its old data. Tokens rise all the same,
// and join tokens of either history are void.
func TestSnapshotRestore(t *testing.T) {
	t.Parallel()
	l := Three(t)
	leader := l.WaitLeader()
	file := filepath.Join(l.dir, "state.snap")
	testenv.Must(t, leader.Put("kept", "1"))
	first := leader.Token()
	leader.Must("snapshot", "save", file, leader.On())
	if out := leader.Must("snapshot", "inspect", file, leader.On()); !strings.Contains(out, "members      3") {
		t.Fatalf("inspect:\n%s", out)
	}
	testenv.Must(t, leader.Put("later", "1"))
	second := leader.Token()
	before := l.token(leader)

	founder, last := l.Peers[0], l.Peers[2]
	l.Peers[1].Stop()
	founder.Stop()
	founder.expect(t, 4, "peer c ("+last.Cluster+") runs", "snapshot", "restore", file, founder.Flags())
	founder.expect(t, 4, "runs", "snapshot", "restore", file, "--lost", "c", founder.Flags())
	last.Stop()
	founder.expect(t, 4, "no other member is called that", "snapshot", "restore", file, "--lost", "d", founder.Flags())
	if out := founder.Must("snapshot", "restore", file, founder.Flags()); !strings.Contains(out, "may join     b (") ||
		!strings.Contains(out, "before-restore-") {
		t.Errorf("restore says:\n%s", out)
	}
	founder.Start()
	l.WaitLeader()
	if now := l.token(founder); now <= before {
		t.Fatalf("token %d after restore, %d before: it must rise", now, before)
	}
	if v, err := founder.Get("kept"); err != nil || v != "1" {
		t.Errorf("kept = %q (%v)", v, err)
	}
	if v, err := founder.Get("later"); err == nil {
		t.Errorf("later = %q is still there", v)
	}
	var tokens []admin.Token
	if err := founder.Call("GET", "/v1/tokens", nil, &tokens); err != nil || len(tokens) > 0 {
		t.Errorf("%d join tokens survived (%v)", len(tokens), err)
	}
	guest := l.Add("d")
	l.Peers = l.Peers[:3]
	for _, token := range []string{first, second} {
		guest.Trivet("join", founder.Cluster, "--token", token, guest.Flags()).ended(t, 7)
	}
	anew, joins := l.Peers[1], l.Peers[2]
	anew.joinAnew(founder)
	testenv.Must(t, os.RemoveAll(joins.Dir)) // as on a host that is installed from scratch
	joins.Join(founder)
	joins.Start()
	l.WaitVoters(3)
	l.WaitSame()
}

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
	wiped.Trivet("serve", wiped.Flags()).ended(t, 2, "no peer lives in this data directory")

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
