//go:build e2e

package labtest

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// poison posts documents that kill whoever works on them, and repeats them on
// every peer as a ramdisk does: no peer dies twice, and the node ends in error
// with the name of the hook and of the peers. The peers are started again, as a
// service manager would.
func poison(t *testing.T, ironic *Ironic) {
	binary := PoisonedBinary(t)
	s := NewHosts(t).Introspecting(ironic.Addr, "TRIVET_INSPECTION_PROCESSING_PROCESSING_HOOKS=ramdisk_error,validate_interfaces,poison,scheduler")
	plain := s.furnish
	s.furnish = func(p *Peer) {
		plain(p)
		p.Binary = binary
	}
	s.Trio()
	machines := ironic.Enroll(0, 4)
	s.Introspect(machines)
	s.WaitState(endLimit, machines, "waiting")

	for i, c := range []struct {
		key, how string
		deaths   int // at most, one a peer
	}{
		{"poison_before", "exit", 3},
		{"poison_after", "exit", 1},
		{"poison_before", "panic", 0},
		{"poison_after", "panic", 0},
	} {
		m := machines[i]
		deaths, reply := s.feed(withKey(t, m.Inventory(), c.key, c.how))
		if reply.Status != http.StatusBadRequest && reply.Status != http.StatusInternalServerError {
			t.Errorf("%s %s: answered %d %s", c.key, c.how, reply.Status, reply.Body)
		}
		r := s.WaitEnd(endLimit, machines[i:i+1])[m.UUID]
		if r.State != "error" || c.key == "poison_after" && c.how == "panic" && !strings.Contains(r.Reason(), "poisoned") ||
			c.how == "exit" && !strings.Contains(r.Reason(), "poison") {
			t.Errorf("%s %s: the node is %s, and does not name the hook: %q", c.key, c.how, r.State, r.Reason())
		}
		total := 0
		for p, n := range deaths {
			total += n
			if n > 1 {
				t.Errorf("%s %s: %s died %d times", c.key, c.how, p.Name, n)
			}
			if !p.named(r.Reason()) {
				t.Errorf("%s %s: the error does not name %s: %q", c.key, c.how, p.Name, r.Reason())
			}
		}
		if total > c.deaths || c.deaths > 0 && total == 0 {
			t.Errorf("%s %s: %d peers died, want at most %d, and one if any may", c.key, c.how, total, c.deaths)
		}
		t.Logf("%s %s: %d peers died, error %q", c.key, c.how, total, r.Reason())
	}
	s.WaitVoters(3)
	s.WaitSame()
}

// feed posts a document on one peer after the other until it is answered for
// good, starts the peers that die of it, and returns who died how often.
func (s *SiteLab) feed(document []byte) (deaths map[*Peer]int, reply Reply) {
	s.t.Helper()
	var addrs []string
	for _, p := range s.Peers {
		addrs = append(addrs, p.API)
	}
	answered := make(chan Reply, 1)
	go func() {
		defer close(answered)
		for end := time.Now().Add(endLimit); time.Now().Before(end); {
			for _, addr := range addrs {
				if reply, err := ask(wireClient(), addr, "POST", "/v1/continue", nil, document); err == nil && reply.Status != http.StatusServiceUnavailable {
					answered <- reply
					return
				}
			}
			<-time.After(time.Second)
		}
	}()
	deaths = make(map[*Peer]int)
	s.Eventually(endLimit+wireLimit, "the document is answered", func() error {
		for _, p := range s.Peers {
			if !p.running() {
				deaths[p]++
				p.Start()
			}
		}
		select {
		case got, ok := <-answered:
			if !ok {
				s.t.Fatal("no peer gave the document an answer")
			}
			reply = got
			return nil
		default:
			return errors.New("not yet")
		}
	})
	for _, p := range s.Peers { // one that died after it had answered
		if !p.running() {
			deaths[p]++
			p.Start()
		}
	}
	return deaths, reply
}
