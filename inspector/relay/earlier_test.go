package relay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// leads commits what a duty of the leader says.
func leads(o *inspecttest.Rig, c fsm.Command) {
	o.Helper()
	crown := inspecttest.Crown{Log: o.RaftLog, Lead: o.RaftLog.Must(fsm.Lead{Peer: "id-h1", Boot: "b"}).Token}
	if res, err := crown.Propose(o.Ctx, c); err != nil || res.Code != fsm.OK {
		o.Fatal(res, err)
	}
}

// inspects says that Ironic begins to inspect a node, and before that was seen to have ended what it did.
func inspects(o *inspecttest.Rig, node string, before bool) {
	o.Helper()
	now := introspection.Inspected{Node: node}
	if before {
		leads(o, introspection.PutInspected{Remove: []string{node}})
		v := o.RaftLog.Truth()
		now.After = fencing.At(v.Base(), v.Index())
	}
	leads(o, introspection.PutInspected{Nodes: []introspection.Inspected{now}})
}

// A document that came while Ironic was away, or before a leader saw that Ironic inspects its node, is of
// that inspection, however late the log learns of it.
func TestRelayOfAnInspectionSeenLate(t *testing.T) {
	for name, before := range map[string]func(o *inspecttest.Rig, e *otherIronic){
		"Ironic was away": nil,
		"its answer was lost": func(_ *inspecttest.Rig, e *otherIronic) {
			e.on(func(bool) (int, error) { return 0, errors.New("the connection was closed before the answer") })
		},
	} {
		inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
			e.on(func(bool) (int, error) { return unsent() })
			body := inspecttest.Callback(inspecttest.MacA, `,"boot":1`)
			o.Succeeds(s, body, inspecttest.NodeA)
			if before != nil {
				before(o, e)
			}
			o.Leads(func() { time.Sleep(500 * time.Millisecond) }) // in a bubble
			inspects(o, inspecttest.NodeA, false)
			o.Ironic.Set(inspecttest.NodeA, func(n *ironic.Node) { n.UUID, n.Provision = inspecttest.NodeA, ironic.InspectWait })
			e.awaits(inspecttest.MacA, inspecttest.NodeA)
			e.on(nil)
			sent := e.sent()
			o.Leads(func() {
				if all := ends(o); len(all) != 1 || all[0].State != relays.Taken || e.sent() == sent {
					t.Errorf("seen-late: %s: %d posts: %+v", name, e.sent()-sent, all)
				}
			})
		})
	}
}

// posts sends a document; whose it is, need not be known.
func posts(o *inspecttest.Rig, s *inspecttest.Service, body string) {
	o.Helper()
	if got, err := s.ContinueInspection(o.Ctx, ironic.InbandCall{Body: []byte(body)}); err != nil || got.Status != 202 {
		o.Fatal(got, err)
	}
}

// ends tells the relays, the oldest first, by state and reason, once none is pending.
func ends(o *inspecttest.Rig) (all []relays.Relay) {
	o.Helper()
	o.Settles(2 * time.Minute)
	for r := range o.RaftLog.Truth().Relays() {
		all = append([]relays.Relay{r}, all...)
	}
	return all
}

// Documents that wait for Ironic while the operator has it begin another inspection never reach
// it; the document of that one does, also if it has the same bytes, whichever leader hands it on
// and whatever an attempt met before.
func TestRelayOfAnEarlierInspection(t *testing.T) {
	first := inspecttest.Callback(inspecttest.MacA, `,"boot":1`)
	lost := func(_ *inspecttest.Rig, e *otherIronic) { e.on(lostAnswer) }
	died := func(o *inspecttest.Rig, e *otherIronic) {
		e.on(nil)
		o.RaftLog.Meets = func(c fsm.Command) error {
			if _, settles := c.(relays.Settle); settles {
				return logerr.ErrNotLeader
			}
			return nil
		}
	}
	for _, c := range []struct {
		name   string
		before func(o *inspecttest.Rig, e *otherIronic) // the first leader hands on
		second string                                   // the document of the second inspection
		early  bool                                     // it came before a leader could hand on the first
		state  relays.State                             // of the first
		reason string
	}{
		{"the machine boots", nil, `,"boot":2`, false, relays.Failed, "of an earlier inspection"},
		{"the machine has called", nil, `,"boot":2`, true, relays.Failed, "of an earlier inspection"},
		{"the same bytes", nil, `,"boot":1`, true, relays.Failed, "of an earlier inspection"},
		{"the same bytes, later", nil, `,"boot":1`, false, relays.Failed, "of an earlier inspection"},
		{"Ironic has it, and its answer was lost", lost,
			`,"boot":2`, false, relays.Taken, "the answer was lost"},
		{"the same bytes, and the answer was lost", lost,
			`,"boot":1`, true, relays.Taken, "the answer was lost"},
		{"Ironic has it, and the leader died", died, `,"boot":2`, true, relays.Taken, "the answer was lost"},
	} {
		inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
			inspects(o, inspecttest.NodeA, false)
			e.on(func(bool) (int, error) { return unsent() })
			o.Succeeds(s, first, inspecttest.NodeA)
			if c.before != nil {
				c.before(o, e)
			}
			o.Leads(func() { time.Sleep(500 * time.Millisecond) }) // in a bubble
			o.RaftLog.Meets = func(fsm.Command) error { return nil }
			e.on(func(bool) (int, error) { return unsent() })
			time.Sleep(10 * time.Minute) // in a bubble
			inspects(o, inspecttest.NodeA, true)
			o.Ironic.Set(inspecttest.NodeA, func(n *ironic.Node) { n.UUID, n.Provision = inspecttest.NodeA, ironic.InspectWait })
			e.awaits(inspecttest.MacA, inspecttest.NodeA)
			second := inspecttest.Callback(inspecttest.MacA, c.second)
			if c.early {
				o.Succeeds(s, second, inspecttest.NodeA)
				o.Succeeds(s, second, inspecttest.NodeA)
			}
			e.on(nil)
			sent := e.sent()
			o.Leads(func() {
				all := ends(o)
				if n := e.sent() - sent; c.early != (n == 1) {
					t.Fatalf("earlier-inspection: %s: %d posts: %+v", c.name, n, all)
				}
				if !c.early {
					o.Succeeds(s, second, inspecttest.NodeA)
					all = ends(o)
				}
				if len(all) != 2 || all[0].State != c.state || !strings.Contains(all[0].Reason, c.reason) ||
					all[1].State != relays.Taken || all[1].Reason != "" {
					t.Errorf("earlier-inspection: %s: %+v", c.name, all)
				}
				if n := e.sent() - sent; n != 1 || string(e.posts[sent].Body) != second {
					t.Errorf("earlier-inspection: %s: %d posts, the first is %s", c.name, n, e.posts[sent].Body)
				}
			})
		})
	}
}

// A machine that no port named when it called is known by one that came since.
func TestRelayOfAnEarlierInspectionOfAnUnknownNode(t *testing.T) {
	inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
		e.on(func(bool) (int, error) { return unsent() })
		posts(o, s, inspecttest.Callback(inspecttest.MacB, ""))
		leads(o, ironicports.PutPorts{Ports: []ironicports.Port{{ID: "q", MAC: inspecttest.MacB, Node: inspecttest.NodeB}}})
		inspects(o, inspecttest.NodeB, true)
		e.on(nil)
		sent := e.sent()
		o.Leads(func() {
			if all := ends(o); all[0].State != relays.Failed || e.sent() != sent {
				t.Errorf("earlier-inspection: %+v after %d posts", all, e.sent()-sent)
			}
		})
	})
}

// Of one inspection, too, Ironic gets what the machine sent last, where nobody tells when it
// began; a newer document that Ironic refused takes no place.
func TestRelayOfANewerDocument(t *testing.T) {
	old, young := inspecttest.Callback(inspecttest.MacA, `,"boot":1`), inspecttest.Callback(inspecttest.MacA, `,"boot":2`)
	inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
		o.Succeeds(s, old, inspecttest.NodeA)
		o.Succeeds(s, young, inspecttest.NodeA)
		o.Leads(func() {
			all := ends(o)
			if all[0].State != relays.Failed || !strings.Contains(all[0].Reason, "newer") || all[1].State != relays.Taken {
				t.Errorf("newer-document: %+v", all)
			}
			if n := e.sent(); n != 1 || string(e.posts[0].Body) != young {
				t.Errorf("newer-document: %d posts", n)
			}
		})
	})
	inRelay(t, func(o *inspecttest.Rig, _ *inspecttest.Service, e *otherIronic) {
		o.Handover = picky{e, young}
		s := o.Service()
		e.on(func(bool) (int, error) { return 409, nil })
		o.Succeeds(s, old, inspecttest.NodeA)
		o.Leads(func() {
			time.Sleep(time.Minute) // in a bubble
			o.Succeeds(s, young, inspecttest.NodeA)
			time.Sleep(time.Minute) // in a bubble
			e.on(nil)
			if all := ends(o); all[0].State != relays.Taken || all[1].State != relays.Failed || all[1].Reason != "because" {
				t.Errorf("newer-document: %+v", all)
			}
		})
	})
}

// picky is an Ironic that takes its time to refuse a document for good.
type picky struct {
	*otherIronic
	refused string
}

func (p picky) Continue(ctx context.Context, c ironic.InbandCall) (ironic.InbandAnswer, error) {
	if string(c.Body) == p.refused {
		time.Sleep(25 * time.Second) // in a bubble
		return ironic.InbandAnswer{Status: 400, Reason: "because"}, nil
	}
	return p.otherIronic.Continue(ctx, c)
}
