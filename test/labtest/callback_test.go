//go:build e2e

package labtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/testenv"
)

// lostAnswer cuts the answer of a callback and repeats it on the other peers:
// each gives the first answer, and the data is applied once. So it is with data
// that was refused.
func lostAnswer(t *testing.T, ironic *openstack.Ironic) {
	s := NewHosts(t).Introspecting(ironic.Addr)
	s.Trio()
	machines := ironic.Enroll(0, 2)
	s.Introspect(machines)
	s.WaitState(endLimit, machines, "waiting")
	front := wiretap.New(t, s.Peers[0].API)
	door := front.Door("ramdisk", "127.0.0.1:0")
	front.Inject(wiretap.Fault{Path: "^/v1/continue$", Cut: wiretap.Answer})

	for _, c := range []struct {
		machine openstack.Machine
		body    []byte
		status  int
		state   string
	}{
		{machines[0], machines[0].Inventory(), http.StatusOK, "finished"},
		{machines[1], withKey(t, machines[1].Inventory(), "error", "the disk is on fire"), http.StatusBadRequest, "error"},
	} {
		if reply, err := httpapi.Ask(s.Peers[0].wire, door, "POST", "/v1/continue", nil, c.body); err == nil {
			t.Fatalf("the answer was not cut: %d %s", reply.Status, reply.Body)
		}
		var first httpapi.Reply
		for i, p := range []*Peer{s.Peers[1], s.Peers[2], s.Peers[0]} {
			var reply httpapi.Reply
			err := again(func() (err error) {
				reply, err = p.settled("POST", "/v1/continue", c.body)
				return err
			})
			if err != nil || reply.Status != c.status {
				t.Fatalf("repeated on %s: %d %s (%v), want %d", p.Name, reply.Status, reply.Body, err, c.status)
			}
			if i == 0 {
				first = reply
			} else if !bytes.Equal(reply.Body, first.Body) {
				t.Errorf("%s answers %s, another %s", p.Name, reply.Body, first.Body)
			}
		}
		s.WaitState(endLimit, []openstack.Machine{c.machine}, c.state)
	}
	checkInventory(t, ironic, machines[:1])
	s.patchedOnce(machines[:1])
}

// patchedOnce wants every machine's node patched, and no patch sent twice: each
// hook that has something to say sends its own.
func (s *SiteLab) patchedOnce(machines []openstack.Machine) {
	s.t.Helper()
	sent, nodes := make(map[string]int), make(map[string]bool)
	for _, c := range s.Tap.Calls(time.Time{}, "PATCH", "^/v1/nodes/") {
		sent[c.Path+" "+string(c.Body)]++
		nodes[c.Path] = true
	}
	if len(nodes) != len(machines) {
		s.t.Errorf("%d of %d nodes were patched", len(nodes), len(machines))
	}
	for patch, n := range sent {
		if n != 1 {
			s.t.Errorf("%d times: %s", n, patch)
		}
	}
}

// withKey sets one key of a document.
func withKey(t testing.TB, document []byte, key string, value any) []byte {
	t.Helper()
	var all map[string]json.RawMessage
	testenv.Must(t, json.Unmarshal(document, &all))
	var err error
	all[key], err = json.Marshal(value)
	testenv.Must(t, err)
	text, err := json.Marshal(all)
	testenv.Must(t, err)
	return text
}

// TestSameCallbackTwice posts the same data to two peers at the same instant, a
// thousand times: it is applied once, and both are answered alike.
func TestSameCallbackTwice(t *testing.T) {
	t.Parallel()
	const nodes, width = 1000, 8
	sim := newSimulated(t, nodes)
	s := New(t).Introspecting(sim.addr)
	s.Trio()
	for from := 0; from < nodes; from += 100 { // so that none times out
		batch := sim.machines[from : from+100]
		s.Introspect(batch)
		s.WaitState(endLimit, batch, "waiting")
		err := httpapi.Parallel(len(batch), width, func(k int) error {
			m := batch[k]
			return twice(s.Peers[k%3], s.Peers[(k+1)%3], m)
		})
		testenv.Must(t, err)
	}
	s.MustFinish(endLimit, sim.machines)
	s.patchedOnce(sim.machines)
}

// twice posts a machine's inventory to two peers at once.
func twice(a, b *Peer, m openstack.Machine) error {
	body := m.Inventory()
	replies := make([]httpapi.Reply, 2)
	err := httpapi.Parallel(2, 2, func(k int) error {
		return again(func() (err error) {
			replies[k], err = []*Peer{a, b}[k].settled("POST", "/v1/continue", body)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	want := fmt.Sprintf(`{"uuid":%q}`, m.UUID)
	for _, r := range replies {
		if r.Status != http.StatusOK || string(bytes.TrimSpace(r.Body)) != want {
			return fmt.Errorf("%s: %d %s and %d %s, want 200 %s twice", m.Name, replies[0].Status, replies[0].Body,
				replies[1].Status, replies[1].Body, want)
		}
	}
	return nil
}

// TestStartedIsKnown starts introspections on one peer and asks the two others
// at once, two thousand times (ten thousand with TRIVET_E2E_LONG): they must
// know of this very start.
func TestStartedIsKnown(t *testing.T) {
	t.Parallel()
	const nodes, width = 500, 8
	rounds := longer(4, 20)
	sim := newSimulated(t, nodes)
	s := New(t).Introspecting(sim.addr)
	s.Trio()
	before := make([]string, nodes) // when each was started last
	began := time.Now()
	for round := range rounds {
		err := httpapi.Parallel(nodes, width, func(k int) (err error) {
			peers := slices.Concat(s.Peers[(round+k)%3:], s.Peers[:(round+k)%3])
			before[k], err = known(peers, sim.machines[k], before[k])
			return err
		})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		s.WaitState(endLimit, sim.machines, "waiting")
	}
	t.Logf("%d starts, asked for on two other peers each, took %v", nodes*rounds, time.Since(began).Round(time.Second))
}

// known starts a node on the first peer and wants the others to show it.
func known(peers []*Peer, m openstack.Machine, before string) (started string, err error) {
	tries := 0
	err = again(func() error {
		tries++
		err := peers[0].Introspect(m.UUID)
		if refusal, ok := err.(*httpapi.Refusal); ok && refusal.Status == http.StatusBadRequest && tries > 1 {
			return nil // the try before did it, and its answer was lost
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("start %s on %s: %w", m.Name, peers[0].Name, err)
	}
	seen := make([]openstack.Report, len(peers)-1)
	err = httpapi.Parallel(len(seen), len(seen), func(k int) (err error) {
		return again(func() error {
			seen[k], err = peers[k+1].Report(m.UUID)
			return err
		})
	})
	if err != nil {
		return "", fmt.Errorf("%s was started on %s: %w", m.Name, peers[0].Name, err)
	}
	for k, r := range seen {
		if r.StartedAt <= before || r.StartedAt != seen[0].StartedAt || r.State != "starting" && r.State != "waiting" {
			return "", fmt.Errorf("%s was started on %s: %s shows %s since %s, the start before was %s", m.Name, peers[0].Name,
				peers[k+1].Name, r.State, r.StartedAt, before)
		}
	}
	return seen[0].StartedAt, nil
}
