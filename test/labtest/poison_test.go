//go:build e2e

package labtest

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testwait"
)

// poison posts documents that kill whoever works on them, and repeats them on
// every peer as a ramdisk does: no peer dies twice, and the node ends in error
// with the name of the hook and of the peers. The peers are started again, as a
// service manager would.
func poison(t *testing.T, ironic *openstack.Ironic) {
	binary := PoisonedBinary(t)
	s := NewHosts(t).Introspecting(ironic.Addr,
		"TRIVET_INSPECTION_PROCESSING_PROCESSING_HOOKS=ramdisk_error,validate_interfaces,poison,scheduler")
	s.also(func(p *Peer) { p.Binary = binary })
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
		deaths := make(map[*Peer]int)
		answered := s.feed(withKey(t, m.Inventory(), c.key, c.how))
		reply := httpapi.Reply{}
		s.supervised(deaths, "the document is answered", func() error {
			select {
			case reply = <-answered:
				return nil
			default:
				return errors.New("not yet")
			}
		})
		var r openstack.Report
		s.supervised(deaths, "the node has ended", func() (err error) {
			if r, err = s.Running()[0].Report(m.UUID); err == nil && !r.Finished {
				err = errors.New("it is " + r.State)
			}
			return err
		})
		if reply.Status != http.StatusBadRequest && reply.Status != http.StatusInternalServerError {
			t.Errorf("%s %s: answered %d %s", c.key, c.how, reply.Status, reply.Body)
		}
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

// feed posts a document to one peer after the other until it is answered for
// good, as a ramdisk does.
func (s *SiteLab) feed(document []byte) <-chan httpapi.Reply {
	var addrs []string
	for _, p := range s.Peers {
		addrs = append(addrs, p.API)
	}
	answered := make(chan httpapi.Reply, 1)
	client := httpapi.Client()
	go func() {
		for end := time.Now().Add(endLimit); time.Now().Before(end); {
			for _, addr := range addrs {
				if reply, err := httpapi.Ask(client, addr, "POST", "/v1/continue", nil, document); err == nil &&
					reply.Status != http.StatusServiceUnavailable {
					answered <- reply
					return
				}
			}
			if !testwait.Rest(s.t.Context(), time.Second) {
				return
			}
		}
	}()
	return answered
}

// supervised waits for something while it counts the peers that die and starts
// them again, as a service manager does.
func (s *SiteLab) supervised(deaths map[*Peer]int, what string, check func() error) {
	s.t.Helper()
	s.Eventually(endLimit, what, func() error {
		for _, p := range s.Peers {
			if !p.running() {
				deaths[p]++
				p.Spawn()
			}
		}
		return check()
	})
}
