//go:build e2e

package attacktest

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/sandbox/machine"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// site is an Ironic with machines.
type site struct {
	*testing.T
	ironic *simironic.Server
	fleet  *machine.Fleet
	url    string
	nodes  []string

	mu   sync.Mutex
	took []time.Duration // of callbacks
}

// newSite makes an Ironic whose machines call nobody yet; open adds them.
func newSite(t *testing.T) *site {
	s := &site{T: t}
	s.ironic = simironic.New(simironic.Options{OnPower: func(node, target string) { s.fleet.Power(node, target) }})
	web := httptest.NewServer(s.ironic)
	s.url = web.URL
	t.Cleanup(func() {
		if s.fleet != nil {
			s.fleet.Close()
		}
		web.Close()
		s.ironic.Close()
	})
	return s
}

// open adds machines, whose ramdisks call the hosts.
func (s *site) open(hosts []*host, count int) {
	s.Helper()
	var callbacks []string
	for _, h := range hosts {
		callbacks = append(callbacks, h.peer.APIURL()+"/v1/continue")
	}
	s.fleet = machine.NewFleet(machine.Options{
		Callbacks: callbacks, BootLeast: 100 * time.Millisecond, BootMost: time.Second, Client: &http.Client{Transport: s},
		Logger: slog.New(slog.DiscardHandler),
	})
	for n := range count {
		m := machine.Number(0xde, n, 1)
		s.fleet.Add(m)
		if err := s.ironic.Enroll(simironic.Enrolment{UUID: m.UUID, BMC: m.BMC, MACs: m.MACs}); err != nil {
			s.Fatal(err)
		}
		s.nodes = append(s.nodes, m.UUID)
	}
}

// RoundTrip implements http.RoundTripper for the ramdisks: it times their callbacks.
func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := http.DefaultTransport.RoundTrip(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, time.Since(began))
	return resp, err
}

// slowest is the 99th percentile of the callbacks.
func (s *site) slowest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.took)
	return s.took[(len(s.took)-1)*99/100]
}

// start starts the introspection of a node, as a client does: it repeats what was
// refused because nobody led, or has an unknown outcome. It returns how often that
// was.
func (s *site) start(h *host, node string) (refused int) {
	s.Helper()
	testwait.Until(s, "flood: the start of "+node+" is accepted", func() bool {
		resp, err := http.Post(h.peer.APIURL()+"/v1/introspection/"+node, "", nil)
		if err != nil {
			s.Fatal(err)
		}
		said, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			s.Fatal(err)
		}
		switch {
		case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
			refused++
			return false
		case refused > 0 && (resp.StatusCode == http.StatusConflict ||
			resp.StatusCode == http.StatusBadRequest && strings.Contains(string(said), "starting")):
			// The one before had been accepted.
		case resp.StatusCode != http.StatusAccepted:
			s.Fatalf("flood: start %s: %s %s", node, resp.Status, said)
		}
		return true
	})
	return refused
}

// ended reports whether the introspection of a node is over; it must be without error.
func (s *site) ended(h *host, node string) bool {
	s.Helper()
	resp, err := http.Get(h.peer.APIURL() + "/v1/introspection/" + node)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	var status struct {
		Finished bool    `json:"finished"`
		Error    *string `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return false // no leader answers for the moment
	}
	if status.Error != nil {
		s.Fatalf("flood: introspection of %s: %s", node, *status.Error)
	}
	return status.Finished
}

// A flood of each kind on the leader stops no introspection through the others.
func TestFloodOfOnePeerStopsNoIntrospection(t *testing.T) {
	s := newSite(t)
	v, hosts := newVictim(t, 2, map[string]string{"ironic.endpoint": s.url})
	nodes, conns := 50, 300
	if raceDetector {
		nodes, conns = 10, 60
	}
	s.open(hosts, nodes)
	token := hosts[0].view().Leadership().Token
	refused, took := 0, time.Now()
	quiet := v.attack(conns)
	for n, node := range s.nodes {
		refused += s.start(hosts[n%2], node)
	}
	for n, node := range s.nodes {
		testwait.Until(t, "flood: the introspection of "+node+" ends", func() bool { return s.ended(hosts[n%2], node) })
	}
	testenv.Took(t, "attack.flood_introspections", time.Since(took), testwait.Limit)
	v.judgeMemory("flood", most)
	if got := v.files(); got > descriptors-64 {
		t.Errorf("flood: %d of %d descriptors are used", got, descriptors)
	}
	v.answers("flood", "socket", v.socket)
	if now := hosts[0].view().Leadership().Token; now != token {
		t.Errorf("flood: leadership was lost: it began at %v and then at %v", token, now)
	}
	quiet()
	testenv.Figure(t, "attack.flood_starts_refused", float64(refused), "", testenv.AtMost(0))
	testenv.Took(t, "attack.flood_callback_p99", s.slowest(), time.Second)
	t.Logf("%+v; %d MiB, %d descriptors", s.fleet.Stats(), v.memory(), v.files())
}
