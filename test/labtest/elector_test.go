//go:build e2e

package labtest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// electorSite is three peers that answer who leads, and everything they ever said.
type electorSite struct {
	*Lab
	ask *http.Client
	at  map[string]string // where the endpoint of a peer is

	mu     sync.Mutex
	names  map[string]string // by token
	alive  []electorSaid
	took   []time.Duration
	faults []string
}

// electorSaid is an answer, and when it was asked for and is over.
type electorSaid struct {
	Name    string `json:"name"`
	Token   string `json:"token"`
	ValidMs int64  `json:"valid_ms"`
	by      string
	asked   time.Time
	heard   time.Time
}

// over is when an answer is over at the earliest.
func (e electorSaid) over() time.Time {
	return e.asked.Add(time.Duration(e.ValidMs) * time.Millisecond)
}

// TestElector has real peers and sidecars answer who leads while leaders are stopped,
// killed and left alone.
func TestElector(t *testing.T) {
	t.Parallel()
	s := &electorSite{Lab: New(t), at: make(map[string]string), names: make(map[string]string),
		ask: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
	s.furnish = func(p *Peer) {
		s.at[p.Name] = testenv.FreePort(t)
		p.Env = append(p.Env, "TRIVET_LEASE_ENABLED=true",
			"TRIVET_ELECTOR_LISTEN=raft="+s.at[p.Name]+",lease:elector.default.x="+testenv.FreePort(t))
	}
	s.Trio("a", "b", "c")
	s.agree()
	stop := s.askAlways()
	s.stoppedLeader()
	s.killedLeader()
	s.sidecars()
	s.alone()
	stop()
	s.verdict()
}

// says asks an endpoint. Nobody's name is an answer as well.
func (s *electorSite) says(by, address string) (said electorSaid, err error) {
	said.by, said.asked = by, time.Now()
	reply, err := httpapi.Ask(s.ask, address, "GET", "/?verbose=1", nil, nil)
	said.heard = time.Now()
	if err = httpapi.OK(reply, err); err != nil {
		return said, err
	}
	return said, reply.Decode(&said)
}

// named fails until every one of them names somebody, the same.
func (s *electorSite) named(want string, addresses ...string) error {
	for _, address := range addresses {
		said, err := s.says("", address)
		if err == nil && said.Name != want {
			err = fmt.Errorf("%q is named, not %q", said.Name, want)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// agree waits until all peers that run name the leader.
func (s *electorSite) agree() *Peer {
	s.t.Helper()
	var leader *Peer
	s.Eventually(electLimit, "all name the leader", func() (err error) {
		if leader, err = s.agreedLeader(); err != nil {
			return err
		}
		for _, p := range s.Running() {
			if err = s.named(leader.Name, s.at[p.Name]); err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
		}
		return nil
	})
	return leader
}

// askAlways asks all endpoints all the time.
func (s *electorSite) askAlways() (stop func()) {
	var ends []func()
	for name, address := range s.at {
		ends = append(ends, repeated(s.t, 20*time.Millisecond, func() {
			if said, err := s.says(name, address); err == nil {
				s.note(said)
			}
		}))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// note compares an answer with those that are alive. It was alive at the least from
// when it was heard until valid_ms after it was asked for.
func (s *electorSite) note(said electorSaid) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, said.heard.Sub(said.asked))
	if said.Name == "" {
		return
	}
	if other, known := s.names[said.Token]; known && other != said.Name {
		s.faults = append(s.faults,
			fmt.Sprintf("elector-one-name-a-token: %s names %s under %s's token %s", said.by, said.Name, other, said.Token))
	}
	s.names[said.Token] = said.Name
	s.alive = slices.DeleteFunc(s.alive, func(o electorSaid) bool { return said.asked.Sub(o.asked) > 5*time.Second })
	for _, o := range s.alive {
		if o.Name != said.Name && o.over().After(said.heard) && said.over().After(o.heard) {
			s.faults = append(s.faults,
				fmt.Sprintf("elector-exclusive: %s names %s while %s's answer %s is alive", said.by, said.Name, o.by, o.Name))
		}
	}
	s.alive = append(s.alive, said)
}

// stoppedLeader: a question that waits for it is not answered with its own name.
func (s *electorSite) stoppedLeader() {
	old := s.WaitLeader()
	old.Pause()
	waiting := make(chan electorSaid, 1)
	go func() {
		said, err := s.says(old.Name, s.at[old.Name])
		if err != nil {
			said.Name = ""
		}
		waiting <- said
	}()
	s.agree()
	old.Cont()
	if said := testwait.Receive(s.t, waiting, "the answer of the peer that was stopped"); said.Name == old.Name {
		s.t.Errorf("elector-stopped: %s was stopped, another leads, and it names itself first", old.Name)
	}
	s.WaitVoters(3)
	s.agree()
}

func (s *electorSite) killedLeader() {
	old := s.WaitLeader()
	began := time.Now()
	old.Kill9()
	next := s.agree()
	s.t.Logf("%s was killed, and all name %s %v later", old.Name, next.Name, time.Since(began).Round(time.Millisecond))
	if _, err := s.says(old.Name, s.at[old.Name]); err == nil {
		s.t.Error("a dead peer answers")
	}
	old.Start()
	s.agree()
}

// alone leaves one peer: it names nobody, at once, which is a figure.
func (s *electorSite) alone() {
	last := s.WaitLeader()
	for _, p := range s.Followers() {
		p.Kill9()
	}
	killed := time.Now()
	s.Eventually(electLimit, "a peer alone names no leader", func() error { return s.named("", s.at[last.Name]) })
	testenv.Took(s.t, "labtest.elector_alone", time.Since(killed), 2*time.Second)
	longest := make(worst)
	for range 50 {
		said, err := s.says(last.Name, s.at[last.Name])
		if err != nil || said.Name != "" {
			s.t.Fatalf("%+v, %v", said, err)
		}
		longest.took(s.t, "labtest.elector_alone_answer", time.Since(said.asked), time.Second)
	}
}

func (s *electorSite) verdict() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fault := range s.faults[:min(len(s.faults), 5)] {
		s.t.Error(fault)
	}
	slices.Sort(s.took)
	n := len(s.took)
	if n == 0 {
		s.t.Fatal("there were no answers")
	}
	s.t.Logf("%d answers under %d tokens; half of them within %v, 99 of 100 within %v", n, len(s.names), s.took[n/2],
		s.took[n*99/100])
	testenv.Figure(s.t, "labtest.elector_answers", float64(n), "", testenv.AtLeast(500))
	testenv.Took(s.t, "labtest.elector_answer_p50", s.took[n/2], 100*time.Millisecond)
}

// candidate is a sidecar.
type candidate struct {
	*program.Process
	id, address, log string
}

// stand starts a candidate, with the arguments that Kuryr's container has.
func (s *electorSite) stand(id string) *candidate {
	s.t.Helper()
	c := &candidate{id: id, address: testenv.FreePort(s.t), log: filepath.Join(s.dir, "elector-"+id+".log")}
	cmd := s.Peers[0].command("elector", "--id="+id, "--election=x", "--http="+c.address, "--election-namespace=default",
		"--ttl=5s", "--use-cluster-credentials", "--v=4")
	var servers []string
	for _, p := range s.Peers {
		servers = append(servers, "http://"+p.API)
	}
	cmd.Env = append(cmd.Env, "TRIVET_SERVER="+strings.Join(servers, ","))
	c.Process = program.StartLogged(s.t, cmd, c.log)
	s.t.Cleanup(func() {
		if err := c.End(syscall.SIGKILL, 5*time.Second); err != nil {
			s.t.Error(err)
		}
		if text, err := os.ReadFile(c.log); err == nil && s.t.Failed() {
			s.t.Logf("--- %s wrote:\n%s", id, text)
		}
	})
	return c
}

// sidecars stand for election: the first is named by both, is stopped, and later
// ended in order.
func (s *electorSite) sidecars() {
	one := s.stand("one")
	s.Eventually(electLimit, "one is elected", func() error { return s.named("one", one.address) })
	two := s.stand("two")
	s.Eventually(electLimit, "both name one", func() error { return s.named("one", one.address, two.address) })
	testenv.Must(s.t, one.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	s.Eventually(electLimit, "two is elected", func() error { return s.named("two", two.address) })
	s.t.Logf("one was stopped; two was elected %v later, the ttl is 5s", time.Since(stopped).Round(time.Millisecond))
	testenv.Must(s.t, one.Signal(syscall.SIGCONT))
	if said, err := s.says("one", one.address); err != nil || said.Name == "one" {
		s.t.Errorf("elector-stopped: it went on, and said %+v, %v", said, err)
	}
	s.Eventually(electLimit, "both name two", func() error { return s.named("two", one.address, two.address) })
	ended := time.Now()
	if err := two.End(syscall.SIGTERM, 5*time.Second); err != nil || two.Code != 0 {
		s.t.Errorf("exit %d, %v", two.Code, err)
	}
	s.Eventually(electLimit, "one is elected again", func() error { return s.named("one", one.address) })
	s.t.Logf("two was ended; one was elected %v later", time.Since(ended).Round(time.Millisecond))
	refused := s.Peers[0].Trivet("elector", "--election=y", "--id=z", "--ttl=4s", "--server=http://"+s.Peers[0].API)
	if refused.Code != 2 || !strings.Contains(refused.Err, "4.5s") {
		s.t.Error("a ttl that is not safe: exit ", refused.Code, refused.Err)
	}
}
