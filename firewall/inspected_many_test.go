package firewall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/test/msgcheck"
)

// slowIronic inspects many nodes, and answers each question for ports after a while.
type slowIronic struct {
	mu    sync.Mutex
	nodes []string
	each  time.Duration
	odd   map[string]bool // nodes whose ports it does not tell
	away  bool            // it lists nothing
}

// becomes changes what it says.
func (s *slowIronic) becomes(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *slowIronic) Inspected(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errors.New("no answer from Ironic")
	}
	return slices.Clone(s.nodes), nil
}

func (s *slowIronic) isOdd(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.odd[node]
}

func (s *slowIronic) MACs(ctx context.Context, node string) ([]string, error) {
	select {
	case <-time.After(s.each): // in a bubble
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.isOdd(node) {
		return nil, errors.New("GET ports?node=…: 500 Internal Server Error")
	}
	return []string{macOf(node)}, nil
}

func manyNodes(n int) (nodes []string) {
	for i := range n {
		nodes = append(nodes, fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
	}
	return nodes
}

// macOf is the MAC of the one port of a node.
func macOf(node string) string {
	return "52:54:00:" + node[30:32] + ":" + node[32:34] + ":" + node[34:36]
}

// Of many machines that Ironic inspects at once each is let in as soon as its ports are known,
// and one whose inspection ends, or begins, does not wait for all the others.
func TestManyInspectionsAreFollowed(t *testing.T) {
	for _, each := range []time.Duration{100 * time.Millisecond, 2 * time.Second} {
		t.Run(each.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.lead()
				ended := inspectedA[:24] + "ffffffffffff"
				r.followed(&slowIronic{nodes: []string{ended}}, 500*time.Millisecond)
				ironic := &slowIronic{nodes: manyNodes(400), each: each}
				ctx, cancel := context.WithCancel(t.Context())
				follow := NewFollow(ironic, r, msgcheck.Logger(t))
				done := make(chan struct{})
				go func() { defer close(done); _ = follow.Run(ctx, r) }()
				defer func() { cancel(); <-done }()
				time.Sleep(500 * time.Millisecond) // in a bubble
				v, _ := r.Changed()
				if v.Allowed(macOf(ended)) {
					t.Error("ended-inspection-boots: at once after its inspection ended its MAC is allowed")
				}
				time.Sleep(10 * time.Second) // in a bubble
				if got := len(r.allowed()); got < int(5*time.Second/each) {
					t.Errorf("nobody-is-let-in: after 10 s %d machines may boot", got)
				}
				time.Sleep(600 * each) // in a bubble
				if got := len(r.allowed()); got != 400 {
					t.Errorf("nobody-is-let-in: after %v %d of 400 machines may boot", 600*each, got)
				}
				fresh := inspectedA[:24] + "eeeeeeeeeeee"
				ironic.becomes(func() { ironic.nodes = append(ironic.nodes[1:], fresh) })
				time.Sleep(portsPause + inspectedEvery + 2*each) // in a bubble
				v, _ = r.Changed()
				if !v.Allowed(macOf(fresh)) || v.Allowed(macOf(manyNodes(1)[0])) {
					t.Errorf("nobody-is-let-in: the new one is allowed: %v, the ended one: %v", v.Allowed(macOf(fresh)),
						v.Allowed(macOf(manyNodes(1)[0])))
				}
				if err := follow.Err(); err != nil {
					t.Errorf("all is well, and yet: %v", err)
				}
			})
		})
	}
}

// A node whose ports Ironic does not tell, or never answers for, stays as it is, is told by Err,
// and keeps no other one in or out.
func TestOneOddInspectionKeepsNoOther(t *testing.T) {
	for name, hangs := range map[string]bool{"500": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.lead()
				nodes := manyNodes(5)
				ended, odd, oddToo, begins := nodes[0], nodes[1], nodes[2], nodes[3:]
				r.followed(&slowIronic{nodes: []string{ended, odd}}, 500*time.Millisecond)
				are := map[string]bool{odd: true, oddToo: true}
				ironic := &hangingIronic{hangs: hangs}
				ironic.nodes, ironic.odd = append([]string{odd, oddToo}, begins...), are
				ctx, cancel := context.WithCancel(t.Context())
				follow := NewFollow(ironic, r, msgcheck.Logger(t))
				done := make(chan struct{})
				go func() { defer close(done); _ = follow.Run(ctx, r) }()
				wait := 500 * time.Millisecond
				if hangs {
					wait += portsLimit + inspectedEvery
				}
				time.Sleep(wait) // in a bubble
				v, _ := r.Changed()
				if v.Allowed(macOf(ended)) {
					t.Error("one-node-stops-all: a node whose inspection ended is allowed still")
				}
				if !v.Allowed(macOf(begins[0])) || !v.Allowed(macOf(begins[1])) || !v.Allowed(macOf(odd)) {
					t.Errorf("one-node-stops-all: allowed are %v", r.allowed())
				}
				if err := follow.Err(); err != nil {
					t.Errorf("told after %v: %v", wait, err)
				}
				time.Sleep(time.Minute) // in a bubble
				if err := follow.Err(); err == nil {
					t.Error("one-node-stops-all: that the ports of a node cannot be listed is not told")
				}
				ironic.becomes(func() { ironic.odd = nil })
				time.Sleep(2 * portsLimit) // in a bubble
				if err := follow.Err(); err != nil {
					t.Errorf("told after it ended: %v", err)
				}
				ironic.becomes(func() { ironic.odd = are })
				time.Sleep(time.Minute) // in a bubble
				cancel()
				<-done
				if err := follow.Err(); err != nil {
					t.Errorf("told by a peer that does not lead: %v", err)
				}
			})
		})
	}
}

// hangingIronic does not answer for odd nodes, if it hangs.
type hangingIronic struct {
	slowIronic
	hangs bool
}

func (h *hangingIronic) MACs(ctx context.Context, node string) ([]string, error) {
	if h.hangs && h.isOdd(node) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.slowIronic.MACs(ctx, node)
}
