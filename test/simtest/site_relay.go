package simtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// expected is an inspection of Ironic's own: it waits for one callback of one
// machine, and for no more after that.
type expected struct {
	document []byte
	heard    int  // how often Ironic was sent it
	taken    int  // how often it was taken
	accepted bool // its ramdisk was told 202 by us
}

// Continue implements inspector.InbandAPI. A callback has its effect when it is
// sent; now and then its answer is lost, or it reaches nobody.
func (c *siteClient) Continue(ctx context.Context, call ironic.InbandCall) (ironic.InbandAnswer, error) {
	var answer ironic.InbandAnswer
	more, err := c.send(ctx, "POST continue_inspection", "")
	if err != nil || c.site.c.rng.IntN(10) == 0 {
		return answer, &ironic.Error{Message: fmt.Sprintf("it did not leave: %v", err),
			Err: errors.Join(ironic.ErrNotSent, err)}
	}
	answer = c.site.hear(call.Body)
	if c.site.c.rng.IntN(5) == 0 {
		return ironic.InbandAnswer{}, &ironic.Error{Message: "the answer was lost"}
	}
	return answer, c.travel(ctx, more)
}

// hear takes a callback that is waited for.
func (s *Site) hear(document []byte) ironic.InbandAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for node, e := range s.expects {
		if !bytes.Equal(e.document, document) {
			continue
		}
		if e.heard++; e.heard > 1 && !s.shown[node] {
			s.c.Oracle.broken("relay-enrols: Ironic, which shows no port of %s, was sent its callback %d times", node, e.heard)
		}
		if e.taken == 0 {
			e.taken++
			return ironic.InbandAnswer{Status: http.StatusAccepted, Body: fmt.Appendf(nil, `{"uuid":%q}`, node)}
		}
	}
	return ironic.InbandAnswer{Status: http.StatusNotFound, Reason: "no node waits for it", Absent: true}
}

// expectAll lets Ironic wait for the callbacks of all machines.
func (s *Site) expectAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expects, s.shown = make(map[string]*expected), make(map[string]bool)
	for node, m := range s.machines {
		s.expects[node] = &expected{document: fmt.Appendf(nil, `{"inventory":{"interfaces":[{"mac_address":%q}]}}`, m.MAC)}
	}
}

// deliver posts a machine's callback to peer after peer as ironic-python-agent
// does, and sometimes once more after it was accepted: its answer was lost.
func (s *Site) deliver(node string) {
	s.mu.Lock()
	e := s.expects[node]
	s.mu.Unlock()
	for range postTries {
		status := s.postSuccessor(e.document)
		if status == http.StatusAccepted && s.c.rng.IntN(3) > 0 {
			s.mu.Lock()
			e.accepted = true
			s.mu.Unlock()
			return
		}
		if status/100 == 4 {
			return
		}
		time.Sleep(postPause) // in a bubble
	}
}

// postSuccessor posts once, and returns the status, 503 for none.
func (s *Site) postSuccessor(document []byte) int {
	p := s.c.Peers[s.c.rng.IntN(len(s.c.Peers))]
	core := p.Core()
	if core == nil || p.paused() {
		return http.StatusServiceUnavailable
	}
	ctx, cancel := context.WithTimeout(context.Background(), postLimit)
	defer cancel()
	answer, err := core.Service.ContinueInspection(ctx, ironic.InbandCall{Body: document})
	var said *inspector.Refusal
	switch {
	case errors.As(err, &said):
		return said.Status
	case err != nil:
		return http.StatusServiceUnavailable
	}
	return answer.Status
}

// show has Ironic show the ports of nodes, once for all.
func (s *Site) show(nodes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range nodes {
		s.shown[node] = true
	}
}

// shownPorts are the ports that Ironic shows, of nodes in order.
func (s *Site) shownPorts() (ports []ironicports.Port) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(s.shown)) {
		ports = append(ports, ironicports.Port{ID: node, MAC: s.machines[node].MAC, Node: node})
	}
	return ports
}

// portLister is a leader's duty that tells the state the ports that Ironic shows.
type portLister struct{ site *Site }

var _ leader.Duty = portLister{}

// Name implements leader.Duty.
func (portLister) Name() string { return "ports of a test" }

// Run implements leader.Duty.
func (l portLister) Run(ctx context.Context, a leader.Authority) error {
	for told := 0; ctx.Err() == nil; {
		if ports := l.site.shownPorts(); len(ports) > told {
			if res, err := a.Propose(ctx, ironicports.PutPorts{Ports: ports}); err == nil && res.Code == fsm.OK {
				told = len(ports)
			}
		}
		time.Sleep(100 * time.Millisecond) // in a bubble
	}
	return nil
}

// judgeRelays compares what became of all callbacks with what Ironic has.
func (s *Site) judgeRelays() (accepted int) {
	v, _ := s.c.newest()
	kept := make(map[blobs.Hash][]relays.Relay)
	for r := range v.Relays() {
		kept[r.Document] = append(kept[r.Document], r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for node, e := range s.expects {
		copies := kept[blobs.HashOf(e.document)]
		if e.accepted {
			accepted++
		}
		if e.accepted && e.taken != 1 {
			s.c.Oracle.broken("relay-delivered: the callback of %s was accepted, and Ironic has it %d times: %+v", node, e.taken,
				copies)
		}
		if len(copies) > 1 {
			s.c.Oracle.broken("relay-joined: the callback of %s is kept %d times: %+v", node, len(copies), copies)
		}
		for _, r := range copies {
			if r.State != relays.Taken {
				s.c.Oracle.broken("relay-told: Ironic has the callback of %s, and the log says %+v", node, r)
			}
		}
	}
	return accepted
}
