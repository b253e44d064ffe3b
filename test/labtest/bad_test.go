//go:build e2e

package labtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/testenv"
)

// expect runs a command on p that must be refused: its exit code, the error it
// prints, and a hint.
func (p *Peer) expect(t *testing.T, code int, what string, words ...any) {
	t.Helper()
	p.Trivet(words...).ended(t, code, "trivet: error: ", what, "trivet: hint: ")
}

// TestBadJoin tries to join with everything but the right token.
func TestBadJoin(t *testing.T) {
	t.Parallel()
	l, other := New(t), New(t)
	a, foreign := l.Found("a"), other.Found("z")
	b := l.Add("b")
	join := func(code int, what, token string) {
		t.Helper()
		b.expect(t, code, what, "join", a.Cluster, "--token", token, b.Flags())
		b.Trivet("serve", b.Flags()).ended(t, 2)
	}
	good := a.Token()
	join(2, "no join token", "")
	join(2, "cut off", good[:40])
	join(7, "not the one named in the join token", foreign.Token())

	id := strings.Split(good, ".")[2]
	a.Must("token", "revoke", id, a.On())
	join(7, "expired, was revoked", good)
	a.Trivet("token", "revoke", id, a.On()).ended(t, 3)

	short := strings.TrimSpace(a.Must("token", "create", "-q", "--ttl", "1s", a.On()))
	l.Eventually(electLimit, "the token expires", func() error {
		var list []struct{ ID string }
		if err := a.Call("GET", "/v1/tokens", nil, &list); err != nil {
			return err
		}
		if len(list) > 1 { // the one of init stays
			return fmt.Errorf("%d tokens are listed", len(list))
		}
		return nil
	})
	join(7, "expired", short)

	dead := l.Add("dead")
	b.expect(t, 1, "connection refused", "join", dead.Cluster, "--token", a.Token(), b.Flags())

	token := a.Token()
	b.Must("join", a.Cluster, "--token", token, b.Flags())
	b.Must("join", a.Cluster, "--token", token, b.Flags()) // twice is a no-op
	b.expect(t, 4, "the token is of another cluster", "join", foreign.Cluster, "--token", foreign.Token(), b.Flags())
	b.Start()
	l.WaitVoters(2)
	c := l.Add("a") // the name of one that lives
	c.Dir = filepath.Join(l.dir, "second-a")
	c.expect(t, 4, "the name a is taken: peer a at ", "join", a.Cluster, "--token", a.Token(), c.Flags())
}

// TestForeignPeer puts a peer of another cluster at the address of a known one.
func TestForeignPeer(t *testing.T) {
	t.Parallel()
	l, other := New(t), New(t)
	a, b := l.Found("a"), l.Grow("b")
	l.WaitVoters(2)
	stranger := other.Add("z")
	b.Kill9()
	stranger.Cluster, stranger.Gossip = b.Cluster, b.Gossip
	stranger.Must("init", stranger.Flags())
	stranger.Start()
	other.WaitLeader()

	await(l.t, growLimit, "a knows that it is alone", a.Status, func(s api.Status) bool { return s.Leader == "" })
	if s, err := stranger.Status(); err != nil || s.Quorum.Voters != 1 {
		t.Errorf("the stranger has %d voters (%v)", s.Quorum.Voters, err)
	}
	a.expect(t, 5, "no leader", "debug", "setting", "put", "user.k", "v", a.On())
	stranger.Stop()
	b.Start()
	l.WaitVoters(2)
	l.WaitSame()
}

// TestSecondServe starts a second process on one data directory.
func TestSecondServe(t *testing.T) {
	t.Parallel()
	l := New(t)
	a := l.Found("a")
	twin := l.Add("twin")
	twin.Dir = a.Dir
	twin.expect(t, 4, "another trivet process uses this data directory", "serve", twin.Flags())
	port := l.Add("port")
	port.Cluster = a.Cluster
	port.Must("init", port.Flags())
	port.expect(t, 1, "address already in use", "serve", port.Flags())
	if err := a.Put("k", "v"); err != nil {
		t.Errorf("the first process was disturbed: %v", err)
	}
}

// TestBadConfiguration writes nonsense; all of it must be named with its line.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	l := New(t)
	p := l.Add("a")
	file := filepath.Join(l.dir, "bad.yaml")
	text := "nmae: h1\napi:\n  listen: nowhere\nraft:\n  timing: soon\n"
	testenv.Must(t, os.WriteFile(file, []byte(text), 0o600))
	r := p.Trivet("serve", "--config", file)
	for _, want := range []string{"bad.yaml:1: nmae", "bad.yaml:3: api.listen", "bad.yaml:5: raft.timing",
		"trivet: hint: "} {
		if r.Code != 2 || !strings.Contains(r.Err, want) {
			t.Errorf("exit %d, want 2 and %q in\n%s", r.Code, want, r.Err)
		}
	}
}

// TestReadOnlyDirectory needs root to mount, since root ignores modes.
func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t, "mount", "umount")
	l := New(t)
	p := l.Add("a")
	p.Tmpfs("16m")
	sh(t, "mount", "-o", "remount,ro", p.Dir)
	p.expect(t, 1, "read-only file system", "init", p.Flags())
	sh(t, "mount", "-o", "remount,rw", p.Dir)
	p.Must("init", p.Flags())
	sh(t, "mount", "-o", "remount,ro", p.Dir)
	p.expect(t, 1, "read-only file system", "serve", p.Flags())
	sh(t, "mount", "-o", "remount,rw", p.Dir)
	p.Start()
	l.WaitLeader()
}

// TestFullDirectory fills the disk of the leader, then of a newcomer.
func TestFullDirectory(t *testing.T) {
	testenv.NeedRoot(t, "mount", "umount")
	eachLogStore(t, fullDirectory)
}

func fullDirectory(t *testing.T, store string) {
	l := New(t)
	l.keepLogs(store)
	small := l.Add("small")
	small.Tmpfs("24k")
	small.expect(t, 1, "no space left on device", "init", small.Flags())
	if entries, err := filepath.Glob(filepath.Join(small.Dir, "peer")); err != nil || len(entries) > 0 {
		t.Errorf("half a peer was left behind: %v (%v)", entries, err)
	}

	full := l.Add("a")
	full.Tmpfs("4m")
	full.Must("init", full.Flags())
	full.Start()
	l.Grow("b")
	l.Grow("c")
	l.Peers = l.Peers[1:] // not the small one
	l.WaitVoters(3)
	load := l.Write(4)
	l.lead(full)
	filler := filepath.Join(full.Dir, "filler")
	testenv.Must(t, fill(filler))
	another := func() error {
		s, err := l.Peers[1].Status()
		if err == nil && (s.Leader == full.Name || s.Leader == "") {
			err = fmt.Errorf("it names %q the leader", s.Leader)
		}
		return err
	}
	l.Eventually(growLimit, "another leads", another)
	before := load.Acked()
	l.Eventually(electLimit, "writes go on", func() error { return atLeast(load.Acked(), before+100) })
	l.Eventually(growLimit, "an alarm", func() error { return full.warns("disk_full", "") })

	// New terms are written where the ballast was; also after a crash.
	for range 3 {
		l.transfer()
		l.Eventually(growLimit, "another leads again", another)
	}
	if !full.running() {
		t.Fatalf("%s exited with %d: a full disk is no reason", full.Name, full.proc.Code)
	}
	full.Kill9()
	full.Start()
	before = load.Acked()
	l.Eventually(electLimit, "writes go on after a crash", func() error { return atLeast(load.Acked(), before+100) })

	testenv.Must(t, os.Remove(filler))
	full.restarted()
	load.Verify(l.WaitLeader())
	l.WaitVoters(3)
	l.WaitSame()
	l.Eventually(growLimit, "no alarm", func() error {
		if err := full.warns("disk_full", ""); err == nil {
			return errors.New("it warns still")
		}
		return nil
	})
	if !full.running() {
		t.Errorf("%s exited with %d", full.Name, full.proc.Code)
	}
}

// restarted waits until the peer serves. A full disk in the middle of a truncation may have
// ended it; the service manager, which the test is here, starts it again.
func (p *Peer) restarted() {
	p.t.Helper()
	p.lab.Eventually(growLimit, p.Name+" runs, perhaps again", func() error {
		if _, err := p.Status(); p.running() {
			return err
		}
		if !p.startAgain() {
			p.t.Fatalf("%s exited with %d", p.Name, p.proc.Code)
		}
		return errors.New("it begins again")
	})
}

// fill writes until the disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err == nil {
			_, err = f.Write(bytes.Repeat([]byte{1}, size))
		}
		err = nil
	}
	return nil
}

// TestDamagedFiles breaks the log and the snapshot of a follower: it must name
// the file and stop, and the rest goes on until it is replaced.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	l := Three(t)
	leader := l.WaitLeader()
	load := l.Write(2)
	victims := l.Followers()
	logFile := filepath.Join(victims[0].Dir, "peer", "raft", "log.db")
	damage(t, victims[0], logFile, func(text []byte) []byte {
		for i := range min(len(text), 64<<10) {
			text[i] ^= 0x5a
		}
		return text
	})
	victims[0].expect(t, 1, "log.db is damaged", "serve", victims[0].Flags())

	leader.Must("remove", victims[0].Name, "--force", leader.On()) // it answered a moment ago
	testenv.Must(t, os.RemoveAll(victims[0].Dir))
	victims[0].Join(leader)
	victims[0].Start()
	l.WaitVoters(3)

	damage(t, victims[0], logFile, func(text []byte) []byte { return text[:len(text)/3] })
	victims[0].Trivet("recover", "--dry-run", victims[0].Flags()).ended(t, 1, "damaged")
	load.Verify(l.WaitLeader())
}

// TestDamagedSnapshot breaks the founding snapshot, the only one there is.
func TestDamagedSnapshot(t *testing.T) {
	t.Parallel()
	l := New(t)
	a := l.Found("a")
	snapshot := theOnly(t, filepath.Join(a.Dir, "peer", "raft", "snapshots", "*", "state.bin"))
	var whole []byte
	damage(t, a, snapshot, func(text []byte) []byte {
		whole = bytes.Clone(text)
		text[len(text)/2] ^= 1
		return text
	})
	a.expect(t, 1, "damaged", "serve", a.Flags())
	a.expect(t, 1, "damaged", "recover", "--dry-run", a.Flags())
	testenv.Must(t, os.WriteFile(snapshot, whole, 0o600))
	a.Start() // nothing was made worse
	l.WaitLeader()

	file := filepath.Join(l.dir, "state.snap")
	a.Must("snapshot", "save", file, a.On())
	text, err := os.ReadFile(file)
	testenv.Must(t, err)
	text[len(text)/2] ^= 1
	testenv.Must(t, os.WriteFile(file, text, 0o600))
	a.expect(t, 2, "state.snap", "snapshot", "restore", file, a.On())
	a.expect(t, 2, "state.snap", "snapshot", "inspect", file, a.On())
	if err := a.Call("PUT", "/v1/snapshot", "no snapshot", nil); err == nil || err.(*httpapi.Refusal).Status != 405 {
		t.Errorf("restore through the socket: %v, want 410", err)
	}
}

// damage kills p and rewrites one of its files.
func damage(t *testing.T, p *Peer, path string, change func([]byte) []byte) {
	t.Helper()
	p.Kill9()
	text, err := os.ReadFile(path)
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(path, change(text), 0o600))
}

// TestWithoutQuorum leaves one of three: it refuses writes in the right words
// and answers every question about itself, at once: that is a figure.
func TestWithoutQuorum(t *testing.T) {
	t.Parallel()
	l := Three(t)
	left := l.WaitLeader()
	for _, p := range l.Followers() {
		p.Kill9()
	}
	await(l.t, electLimit, "the last one knows", left.Status, func(s api.Status) bool { return s.Leader == "" })
	longest := make(worst)
	quick := func(code int, words ...any) {
		t.Helper()
		began := time.Now()
		left.Trivet(append(words, left.On())...).ended(t, code)
		longest.took(t, "labtest.no_quorum_command", time.Since(began), time.Second)
	}
	quick(5, "status")
	quick(0, "peers")
	quick(0, "members", "--stale")
	quick(0, "debug", "fsm", "check")
	for path, want := range map[string]int{"/livez": 200, "/readyz": 503} {
		code, took := left.web(t, path)
		if code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
		longest.took(t, "labtest.no_quorum_web", took, time.Second)
	}
	for _, method := range []string{"PUT", "DELETE", "GET"} {
		err := left.Call(method, "/v1/settings/user.k", map[string]string{"value": "v"}, nil)
		if r, ok := err.(*httpapi.Refusal); !ok || r.Status != 503 || r.RetryAfter == "" {
			t.Errorf("%s without quorum: %v, want 503 with Retry-After", method, err)
		}
	}
	left.expect(t, 5, "no leader", "token", "create", left.On())
}
