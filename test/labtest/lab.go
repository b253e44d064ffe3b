//go:build e2e

package labtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// BinaryEnv names the variable with the path of the binary under test; the
// TestMain of a test package sets it.
const BinaryEnv = "TRIVET_TEST_BINARY"

// Limits of what a healthy cluster on loopback may take, with a wide margin for
// a machine that does other things too.
const (
	electLimit = 20 * time.Second
	growLimit  = 45 * time.Second
	pollEvery  = 20 * time.Millisecond
)

// longDays reports whether there is time for everything.
func longDays() bool { return os.Getenv("TRIVET_E2E_LONG") != "" }

// longer is much if there is time for everything, and little if not.
func longer[T any](little, much T) T {
	if longDays() {
		return much
	}
	return little
}

// numberOf is how often a test does something: as a variable says, or as usual.
func numberOf(t testing.TB, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s: %q is no number of times", variable, text)
	}
	return n
}

// theOnly is the one file that a pattern is for.
func theOnly(t testing.TB, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: want one file, and there are %q (%v)", pattern, found, err)
	}
	return found[0]
}

// Lab is the directories, ports and processes of one test. Its methods are for
// the goroutine of the test.
type Lab struct {
	t     testing.TB
	dir   string
	net   *Net // nil: all peers are on loopback
	Peers []*Peer

	furnish func(*Peer) // completes a new peer, if not nil
}

// New returns a lab without peers. When the test ends it kills every process
// and, if the test failed, prints what they wrote.
func New(t testing.TB) *Lab {
	if os.Getenv(BinaryEnv) == "" {
		t.Fatalf("labtest: %s is not set; TestMain builds the binary", BinaryEnv)
	}
	dir, err := os.MkdirTemp("", "trivet-lab-") // short: a socket's path has 107 bytes
	testenv.Must(t, err)
	l := &Lab{t: t, dir: dir}
	t.Cleanup(l.close)
	return l
}

// NewHosts returns a lab whose peers get a host each.
func NewHosts(t testing.TB) *Lab {
	network := NewNet(t) // first, so that it outlives the processes in it
	l := New(t)
	l.net = network
	return l
}

// Gateway is the tester's address on the hosts' site.
func (l *Lab) Gateway() string { return l.net.Gateway }

// Three returns a lab in which three peers run, all of them voters.
func Three(t testing.TB) *Lab {
	l := New(t)
	l.Trio("a", "b", "c")
	return l
}

// Trio starts three peers and waits until all of them are voters.
func (l *Lab) Trio(first, second, third string) {
	l.t.Helper()
	l.Found(first)
	for _, name := range []string{second, third} {
		l.Grow(name)
	}
	l.WaitVoters(3)
}

func (l *Lab) close() {
	for _, p := range l.Peers {
		p.reap()
	}
	if l.t.Failed() {
		for _, p := range l.Peers {
			l.t.Logf("--- %s wrote (end of it):\n%s", p.Name, program.Tail(p.Log(), 60))
		}
	}
	if err := os.RemoveAll(l.dir); err != nil {
		l.t.Errorf("clean up: %v", err)
	}
}

// Add makes a peer that was neither founded nor joined yet.
func (l *Lab) Add(name string) *Peer {
	p := &Peer{
		lab: l, t: l.t, Name: name,
		Dir:    filepath.Join(l.dir, name),
		Socket: filepath.Join(l.dir, name+".sock"),
		Binary: os.Getenv(BinaryEnv),
		Config: os.DevNull,
	}
	if l.net == nil {
		p.API, p.Cluster, p.Gossip = testenv.FreePort(l.t), testenv.FreePort(l.t), testenv.FreePort(l.t)
	} else {
		p.Host = l.net.Host(len(l.Peers) + 1)
		p.API, p.Cluster, p.Gossip = p.Host.Site+":5050", p.Host.Peers+":7350", p.Host.Peers+":7351"
		p.Env = []string{"TRIVET_API_AUTH_STRATEGY=noauth"} // off loopback one must be written
	}
	p.http, p.wire = socketClient(p.Socket), httpapi.Client()
	if l.furnish != nil {
		l.furnish(p)
	}
	l.Peers = append(l.Peers, p)
	return p
}

// Found founds a cluster on a new peer and starts it.
func (l *Lab) Found(name string) *Peer {
	l.t.Helper()
	p := l.Add(name)
	p.Must("init", p.Flags())
	p.Start()
	l.WaitLeader()
	return p
}

// Grow joins a new peer through the leader and starts it.
func (l *Lab) Grow(name string) *Peer {
	l.t.Helper()
	p := l.Add(name)
	p.Join(l.WaitLeader())
	p.Start()
	return p
}

// Eventually polls until check returns nil, and fails the test with its last
// error if it does not within limit.
func (l *Lab) Eventually(limit time.Duration, what string, check func() error) {
	l.t.Helper()
	eventually(l.t, limit, what, check)
}

// worthTelling is how long a wait must be to appear in the test's output, so
// that one sees where the time goes.
const worthTelling = 2 * time.Second

// eventually polls until check returns nil, and fails the test with its last
// error if it does not within limit.
func eventually(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	began := time.Now()
	testenv.Must(t, testwait.Poll(context.Background(), limit, what, check))
	if took := time.Since(began); took > worthTelling {
		t.Logf("waited %v: %s", took.Round(100*time.Millisecond), what)
	}
}

// await reads until what is read is as wanted, and returns that.
func await[T any](t testing.TB, limit time.Duration, what string, read func() (T, error), wanted func(T) bool) (got T) {
	t.Helper()
	eventually(t, limit, what, func() (err error) {
		if got, err = read(); err == nil && !wanted(got) {
			err = fmt.Errorf("it is %+v", got)
		}
		return err
	})
	return got
}

// atLeast fails until there are as many as are wanted.
func atLeast(got, want int64) error {
	if got < want {
		return fmt.Errorf("%d of %d so far", got, want)
	}
	return nil
}

// Running lists the peers whose process runs and is not stopped.
func (l *Lab) Running() []*Peer {
	var out []*Peer
	for _, p := range l.Peers {
		if p.running() && !p.aside {
			out = append(out, p)
		}
	}
	return out
}

// WaitLeader waits until every running peer names the same leader and that one
// takes writes, and returns it.
func (l *Lab) WaitLeader() *Peer {
	l.t.Helper()
	var found *Peer
	l.Eventually(electLimit, "one leader that takes writes", func() error {
		leader, err := l.agreedLeader()
		if err != nil {
			return err
		}
		found = leader
		return leader.Put("lab.leader", leader.Name)
	})
	return found
}

func (l *Lab) agreedLeader() (*Peer, error) {
	name := ""
	for _, p := range l.Running() {
		s, err := p.Status()
		switch {
		case err != nil:
			return nil, err
		case s.Leader == "":
			return nil, fmt.Errorf("%s knows no leader", p.Name)
		case name != "" && s.Leader != name:
			return nil, fmt.Errorf("%s and %s are both called leader", name, s.Leader)
		}
		name = s.Leader
	}
	for _, p := range l.Running() {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("the leader %q does not run", name)
}

// Followers returns the running peers other than the leader.
func (l *Lab) Followers() []*Peer {
	l.t.Helper()
	leader := l.WaitLeader()
	var out []*Peer
	for _, p := range l.Running() {
		if p != leader {
			out = append(out, p)
		}
	}
	return out
}

// WaitVoters waits until every running peer sees n voters and no other server,
// all with a session. A peer that asks its service manager for that is started again.
func (l *Lab) WaitVoters(n int) {
	l.t.Helper()
	l.Eventually(growLimit, fmt.Sprintf("%d voters", n), func() error {
		for _, p := range l.Peers {
			p.startAgain()
		}
		for _, p := range l.Running() {
			s, err := p.Status()
			if err != nil {
				return err
			}
			var servers []api.Peer
			if err := p.Call("GET", "/v1/peers", nil, &servers); err != nil {
				return err
			}
			if s.Quorum.Voters != n || s.Quorum.Live != n || len(servers) != n || !s.Ready {
				return fmt.Errorf("%s sees %d voters, %d of them live, %d servers, ready: %v", p.Name, s.Quorum.Voters,
					s.Quorum.Live, len(servers), s.Ready)
			}
		}
		return nil
	})
}

// parted returns the first lines in which the states of two peers differ, with those
// before them: to which table and entry they belong.
func parted(a, b *Peer) string {
	var dumps [2]json.RawMessage
	for i, p := range []*Peer{a, b} {
		if err := p.Call("GET", "/v1/debug/dump", nil, &dumps[i]); err != nil {
			return fmt.Sprintf("dump the state of %s: %v", p.Name, err)
		}
	}
	const before, after = 20, 5
	x, y := strings.Split(string(dumps[0]), "\n"), strings.Split(string(dumps[1]), "\n")
	for i := range min(len(x), len(y)) {
		if x[i] == y[i] || strings.Contains(x[i], `"hash":`) && i < 3 {
			continue
		}
		return fmt.Sprintf("they differ first in line %d of their dumps\n%s has\n%s\n%s has\n%s", i+1,
			a.Name, strings.Join(x[max(i-before, 0):min(i+after, len(x))], "\n"), b.Name,
			strings.Join(y[max(i-before, 0):min(i+after, len(y))], "\n"))
	}
	return fmt.Sprintf("their dumps differ in length at most, %d lines and %d: what is redacted or left out there may",
		len(x), len(y))
}

// WaitSame waits until every running peer has a state without a broken
// invariant and, at one index, the same hash; it returns that index.
func (l *Lab) WaitSame() uint64 {
	l.t.Helper()
	var index uint64
	l.Eventually(electLimit, "equal states", func() error {
		var first admin.Check
		for i, p := range l.Running() {
			var c admin.Check
			if err := p.Call("GET", "/v1/debug/check", nil, &c); err != nil {
				return err
			}
			switch {
			case !c.OK:
				l.t.Fatalf("%s: invariant broken: %s", p.Name, c.Problem)
			case i == 0:
				first = c
			case c.Index != first.Index:
				return fmt.Errorf("%s is at index %d, another at %d", p.Name, c.Index, first.Index)
			case c.Hash != first.Hash:
				l.t.Fatalf("at index %d %s has hash %s, %s %s: %s", c.Index, p.Name, c.Hash, l.Running()[0].Name, first.Hash,
					parted(p, l.Running()[0]))
			}
		}
		index = first.Index
		return nil
	})
	return index
}
