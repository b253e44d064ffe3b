//go:build e2e

package powercut

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/test/labtest"
	"github.com/trivet-ha/trivet/test/testwait"
)

// electLimit bounds a wait for a leader: a recorded process is slow.
const electLimit = time.Minute

// recordedVerbs change the data directory, or a file of an operator, or serve.
const recordedVerbs = "init|serve|join|recover|snapshot|leave"

// story is real peers whose files are recorded.
type story struct {
	*testing.T
	lab          *labtest.Lab
	root, traces string
	program      string // that records
	recording    *Recording
	said         []Said
	wrote        uint64
}

func newStory(t *testing.T) *story {
	s := &story{T: t, lab: labtest.New(t), traces: t.TempDir()}
	s.program = script(t, s.traces, "trivet", recordedVerbs)
	return s
}

// add returns a new peer with a log store.
func (s *story) add(name, store string) *labtest.Peer {
	p := s.lab.Add(name)
	p.Binary = s.program
	s.keep(p, store)
	if s.root = filepath.Dir(p.Dir); s.recording == nil {
		var err error
		if s.recording, err = Start(s.Name(), s.root); err != nil {
			s.Fatal(err)
		}
	}
	return p
}

func (s *story) keep(p *labtest.Peer, store string) {
	p.Env = []string{"TRIVET_RAFT_LOG_STORE=" + store}
}

// claim says that something was acknowledged by now.
func (s *story) claim(name string, value uint64) {
	s.said = append(s.said, Said{time.Now().UnixMicro(), name, value})
}

// write writes numbers through a peer, in an incarnation in which that many peers have each.
func (s *story) write(p *labtest.Peer, count, incarnation, need int) {
	s.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.Socket)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	defer client.CloseIdleConnections()
	for range count {
		s.wrote++
		body := fmt.Sprintf(`{"value":"%d %s"}`, s.wrote, strings.Repeat("x", int(s.wrote)*997%3000))
		url := "http://trivet/v1/settings/" + key
		req, err := http.NewRequestWithContext(s.Context(), "PUT", url, bytes.NewBufferString(body))
		if err != nil {
			s.Fatal(err)
		}
		req.Header.Set("X-Request-Id", Claim(fmt.Sprintf("value/%d/%d", incarnation, need), s.wrote))
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			s.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode/100 != 2 {
			s.Fatalf("write %d: %s (%v)", s.wrote, resp.Status, err)
		}
	}
	for _, p := range s.lab.Running() {
		if _, err := p.Status(); err != nil { // which tells its term
			s.Error(err)
		}
	}
}

// founded runs a command that founds the cluster on a peer, and starts it.
func (s *story) founded(p *labtest.Peer, incarnation uint64, words ...any) {
	s.Helper()
	s.claim(fmt.Sprintf("base/%d", incarnation), s.wrote)
	p.Must(append(words, p.Flags())...)
	s.claim("founded/"+p.Name, incarnation)
	p.Start()
	s.lab.WaitLeader()
}

func (s *story) join(p, through *labtest.Peer, incarnation uint64) {
	s.Helper()
	p.Join(through)
	s.claim("founded/"+p.Name, incarnation)
	p.Start()
}

// renew has a peer get a new certificate.
func (s *story) renew(p *labtest.Peer) {
	s.Helper()
	_, was, err := datadir.Peek(p.Dir)
	if err != nil {
		s.Fatal(err)
	}
	p.Must("cert", "renew", p.On())
	testwait.Within(s, testwait.Bound(electLimit), "another certificate", func() error {
		_, is, err := datadir.Peek(p.Dir)
		if err == nil && is.Leaf.SerialNumber.Cmp(was.Leaf.SerialNumber) == 0 {
			return fmt.Errorf("it has the old one")
		}
		if err == nil {
			s.claim("expires/"+p.Name, uint64(is.Leaf.NotAfter.Unix()))
		}
		return err
	})
}

// cut ends the peers and cuts the power at states of the recording.
func (s *story) cut(sum *tally) {
	s.Helper()
	var names []string
	for _, p := range s.lab.Peers {
		names = append(names, p.Name)
	}
	for _, p := range s.lab.Running() {
		p.Stop()
	}
	ended(s.T, s.traces)
	if err := s.recording.Read(s.traces, s.said...); err != nil {
		s.Fatal(err)
	}
	sum.cutAll(s.T, s.recording, sum.wanted,
		func(dir, store string, c Claims) error { return JudgePeers(dir, names, store, c) })
}

// ofAPeer cuts the power while a peer is made, writes, is killed, changes its log store, gets
// a certificate, saves a snapshot, and is founded again: by restore, and by recover.
func ofAPeer(t *testing.T, sum *tally) {
	for n, store := range Stores {
		other := Stores[1-n]
		t.Run(store, func(t *testing.T) {
			s := newStory(t)
			p := s.add(founder, store)
			s.founded(p, 1, "init")
			s.write(p, 15, 1, 1)
			p.Must("snapshot", "save", filepath.Join(s.root, "state.snap"), p.On())
			s.claim("file/state.snap", s.wrote)
			saved := s.wrote
			p.Kill9()
			s.keep(p, other)
			p.Start()
			s.lab.WaitLeader()
			s.write(p, 10, 1, 1)
			s.renew(p)
			p.Stop()
			s.claim("base/2", saved)
			p.Must("snapshot", "restore", filepath.Join(s.root, "state.snap"), p.Flags())
			s.claim("founded/"+p.Name, 2)
			p.Start()
			s.lab.WaitLeader()
			s.write(p, 10, 2, 1)
			p.Kill9()
			s.founded(p, 3, "recover")
			s.write(p, 5, 3, 1)
			s.cut(sum)
		})
	}
}

// ofAJoiner cuts the power of two peers at once while one joins, leaves, and joins again.
func ofAJoiner(t *testing.T, sum *tally) {
	s := newStory(t)
	a := s.add(founder, "wal")
	s.founded(a, 1, "init")
	b := s.add("b", "bolt")
	s.join(b, a, 1)
	s.lab.WaitVoters(2)
	s.write(s.lab.WaitLeader(), 5, 1, 1) // the other is to leave
	s.claim("left/b", 1)
	b.Must("leave", b.On())
	b.WaitExit(electLimit)
	s.lab.WaitVoters(1)
	s.write(s.lab.WaitLeader(), 5, 1, 1)
	s.join(b, a, 1)
	s.claim("left/b", 2)
	s.lab.WaitVoters(2)
	s.write(s.lab.WaitLeader(), 5, 1, 2)
	s.cut(sum)
}

// ofThreePeers cuts the power of all three peers at once while they join, vote, are killed, and
// change their log store: what was acknowledged is at two of them.
func ofThreePeers(t *testing.T, sum *tally) {
	for n, store := range Stores {
		other := Stores[1-n]
		t.Run(store, func(t *testing.T) {
			s := newStory(t)
			a := s.add(founder, store)
			s.founded(a, 1, "init")
			b, c := s.add("b", store), s.add("c", other)
			for _, p := range []*labtest.Peer{b, c} {
				s.join(p, a, 1)
			}
			s.lab.WaitVoters(3)
			s.write(s.lab.WaitLeader(), 15, 1, 2)
			killed := s.lab.WaitLeader()
			killed.Kill9()
			s.write(s.lab.WaitLeader(), 10, 1, 2)
			s.keep(killed, other)
			killed.Start()
			s.lab.WaitVoters(3)
			for _, p := range s.lab.Followers() {
				p.Stop()
				s.keep(p, store)
				p.Start()
				s.lab.WaitVoters(3)
				s.renew(p)
				s.write(s.lab.WaitLeader(), 3, 1, 2)
			}
			s.cut(sum)
		})
	}
}
