//go:build e2e

package labtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
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
	if err != nil {
		t.Fatal(err)
	}
	wiped.Kill9()
	attic := wiped.Dir + ".old"
	if err := os.Rename(wiped.Dir, attic); err != nil {
		t.Fatal(err)
	}
	if r := wiped.Trivet("serve", wiped.Flags()); r.Code != 2 || !strings.Contains(r.Err, "no peer lives in this data directory") {
		t.Fatalf("serve on an empty disk: exit %d\n%s", r.Code, r.Err)
	}

	// Until its session has ended the old one may live: nobody takes its place.
	wiped.expect(t, 4, "lives: the name and the address are taken", "join", leader.Cluster, "--token", leader.Token(), wiped.Flags())
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
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
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

// TestRestoredElsewhere restores the snapshot of a cluster that is gone on three
// new hosts, at the addresses of the old ones. An old host that comes back is
// refused by the new peers and refuses them, over TLS and in gossip.
func TestRestoredElsewhere(t *testing.T) {
	t.Parallel()
	before := Three(t)
	load := before.Write(3)
	before.Eventually(electLimit, "some writes", func() error { return atLeast(load.Acked(), 200) })
	load.Stop()
	leader := before.WaitLeader()
	file := filepath.Join(before.dir, "backup.snap")
	leader.Must("snapshot", "save", file, leader.On())
	cluster := strings.TrimSpace(leader.Must("snapshot", "inspect", file, "-o", "name", leader.On()))
	oldToken, ticket := before.token(leader), leader.Token()
	for _, p := range before.Peers {
		p.Kill9()
	}

	after := New(t)
	for i, name := range []string{"a", "b", "c"} {
		p, there := after.Add(name), before.Peers[i]
		p.Cluster, p.Gossip = there.Cluster, there.Gossip
		p.Env = []string{"TRIVET_LOG_LEVEL=debug"} // at which gossip tells whom it does not understand
		if i == 0 {
			p.Must("init", p.Flags())
		} else {
			p.Join(after.WaitLeader())
		}
		p.Start()
	}
	after.WaitVoters(3)
	leader = after.Peers[0]
	after.lead(leader)
	leader.expect(t, 4, "the snapshot is of cluster "+cluster, "snapshot", "restore", file, leader.On())
	leader.expect(t, 4, "not of", "snapshot", "restore", file, "--from-cluster", "6f9d2f0e-0000-4000-8000-000000000000", leader.On())
	leader.Must("snapshot", "restore", file, "--from-cluster", cluster, leader.On())
	leader = after.WaitLeader()
	if now := after.token(leader); now <= oldToken {
		t.Errorf("token %d on the new hosts, %d on the old: it must rise", now, oldToken)
	}
	load.Verify(leader)
	after.WaitVoters(3)
	after.WaitSame()

	after.comesBack(before.Peers[2], after.Peers[2], ticket)
	load.Verify(after.WaitLeader())
	after.WaitSame()
}

// comesBack starts a peer of a cluster that is gone at the address of one that
// lives, beside others at the addresses that it knows: each side asks the other
// and neither understands. The old one stays harmless, and the new one takes its
// place again.
func (l *Lab) comesBack(old, fresh *Peer, ticket string) {
	l.t.Helper()
	leader := l.Peers[0]
	fresh.Stop()
	old.Env = []string{"TRIVET_LOG_LEVEL=debug"}
	old.Start()
	const stranger = "no installed keys could decrypt the message"
	l.Eventually(growLimit, "both sides do not understand each other's gossip", func() error {
		for _, p := range []*Peer{old, leader} {
			if !strings.Contains(p.Log(), stranger) {
				return fmt.Errorf("%s does not say so:\n%s", p.Name, tail(p.Log(), 5))
			}
		}
		return nil
	})
	s, err := old.Status()
	if err != nil || s.Leader != "" || s.Quorum.Live > 1 {
		l.t.Errorf("the old peer sees leader %q and %d voters (%v)", s.Leader, s.Quorum.Live, err)
	}
	if err := old.Put("old", "1"); err == nil {
		l.t.Error("the old peer takes writes")
	}
	l.Eventually(growLimit, "the new cluster knows that its own peer is away", func() error {
		var peers []api.Peer
		if err := leader.Call("GET", "/v1/peers", nil, &peers); err != nil || strings.Contains(fmt.Sprint(peers), s.ID) || len(peers) != 3 {
			return fmt.Errorf("it sees %+v (%v)", peers, err)
		}
		for _, peer := range peers {
			if peer.Name == fresh.Name && (peer.Live || peer.Gossip == "alive") {
				return fmt.Errorf("it takes the old peer for its own: %+v", peer)
			}
		}
		return nil
	})
	guest := l.Add("d")
	l.Peers = l.Peers[:3]
	for through, token := range map[*Peer]string{leader: ticket, old: leader.Token()} {
		guest.expect(l.t.(*testing.T), 7, "not the one named in the join token", "join", through.Cluster, "--token", token, guest.Flags())
	}
	old.Stop()
	fresh.Start()
	l.WaitVoters(3)
}
