package inspector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// refusedWith wants a refusal of the contract.
func refusedWith(t *testing.T, what string, err error, status int, message string) {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) || r.Status != status || r.Message != message {
		t.Errorf("%s: %+v (%v), want %d %q", what, r, err, status, message)
	}
}

func TestStartIsAccepted(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		for _, ref := range []string{nodeA, "name-2"} {
			if err := s.Start(o.ctx, ref, true); err != nil {
				t.Errorf("start %s: %v", ref, err)
			}
		}
		for node, mac := range map[string]string{nodeA: macA, nodeB: macB} {
			rec, _ := o.raftLog.truth().Record(node)
			if rec.State != introspection.NodeStarting || !rec.ManageBoot || !slices.Equal(rec.Attributes.MACs, []string{mac}) {
				t.Errorf("%+v", rec)
			}
			if d := rec.Deadline.Sub(rec.Started); d != o.conf.Timeout {
				t.Errorf("its deadline is %v away", d)
			}
		}
		err := s.Start(o.ctx, nodeA, true)
		refusedWith(t, "twice", err, 400, "Can not transition from state 'starting' on event 'start' (no defined transition)")
	})
}

func TestStartIsRefused(t *testing.T) {
	const unknown = "99999999-9999-4999-8999-999999999999"
	deployed := `Invalid provision state for introspection: "active", valid states are "['manageable', 'enroll', 'inspect wait', 'inspecting', 'inspect failed']"`
	for _, c := range []struct {
		name, ref string
		before    func(o *rig)
		status    int
		message   string
	}{
		{"unknown UUID", unknown, nil, 404, "Node " + unknown + " was not found in Ironic"},
		{"unknown name", "nobody", nil, 404, "Node nobody was not found in Ironic"},
		{"UUID without dashes", strings.ReplaceAll(nodeA, "-", ""), nil, 404, "Node " + strings.ReplaceAll(nodeA, "-", "") + " was not found in Ironic"},
		{"deployed", nodeA, func(o *rig) { o.ironic.set(nodeA, func(n *Node) { n.Provision = "active" }) }, 400, deployed},
		{"no managed boot", nodeA, func(o *rig) { o.conf.CanManageBoot = false }, 400,
			"Managed boot is requested, but this installation cannot manage boot ((can_manage_boot set to False)"},
		{"Ironic away", nodeA, func(o *rig) { o.ironic.met("node", away()) }, 503, "Ironic cannot be reached: connection refused"},
		{"Ironic busy", nodeA, func(o *rig) { o.ironic.met("validate", &IronicError{Status: 503, Message: "no conductor"}) }, 503, "Ironic cannot be reached: no conductor"},
		{"Ironic fails", nodeA, func(o *rig) { o.ironic.met("node", &IronicError{Status: 500, Message: "oops"}) }, 500, "Ironic answered 500: oops"},
		{"Ironic forbids", nodeA, func(o *rig) { o.ironic.met("node", &IronicError{Status: 403, Message: "no"}) }, 500, "Ironic answered 403: no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, func(o *rig) {
				if c.before != nil {
					c.before(o)
				}
				refusedWith(t, c.name, o.service().Start(o.ctx, c.ref, true), c.status, c.message)
				if n := o.raftLog.truth().Nodes(); n != 0 {
					t.Errorf("%d records", n)
				}
			})
		})
	}
}

// What the configuration allows, the log takes; a node whose UUID was created in
// upper case has its record in lower case.
func TestLongestTimesAreTaken(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.Timeout, o.conf.RebootThrottle = introspection.MaxTime, introspection.MaxGap
		bounds := make(map[string]string)
		for _, option := range config.Options() {
			bounds[option.Key] = option.Bounds()
		}
		if got := bounds["inspection.timeout"] + "; " + bounds["inspection.reboot_throttle"]; got != "more than 0s, at most 168h; 0s to 1h" {
			t.Errorf("the configuration allows %s", got)
		}
		upper := strings.ToUpper(nodeB)
		o.ironic.set(nodeB, func(n *Node) { n.UUID = upper })
		for _, ref := range []string{nodeA, "name-2"} {
			if err := o.service().Start(o.ctx, ref, true); err != nil {
				t.Errorf("%s: %v", ref, err)
			}
		}
		o.work(func(*WorkerPool) {
			for _, node := range []string{nodeA, nodeB} {
				o.becomes(node, introspection.NodeWaiting, introspection.MaxGap+time.Minute)
			}
		})
		if got := o.ironic.sent(PowerReboot); len(got) != 2 {
			t.Errorf("powered on: %v", got)
		}
	})
}

// The power interface is Ironic's to judge, and its sentence is passed on.
func TestStartNeedsPower(t *testing.T) {
	inRig(t, func(o *rig) {
		s := NewService(ServiceOptions{Live: o.live(), Log: o.raftLog, Do: o.member, Notifier: o.notifier, Ironic: powerless{o.ironic}, Packer: o.packer, Logger: o.log})
		refusedWith(t, "no power", s.Start(o.ctx, nodeA, true), 400, "Failed validation of power interface: Validation failed for required interfaces of node "+nodeA+": power (no IPMI address)")
		if err := s.o.Ironic.SetPower(o.ctx, nodeA, PowerOff); err != nil {
			t.Error(err)
		}
	})
}

type powerless struct{ *ironicModel }

func (powerless) PowerValid(context.Context, string) (bool, string, error) {
	return false, "no IPMI address", nil
}

// Ports that cannot be listed at once are the worker's business.
func TestStartWithoutPorts(t *testing.T) {
	inRig(t, func(o *rig) {
		o.ironic.met("ports", &IronicError{Status: 500, Message: "not now"})
		if err := o.service().Start(o.ctx, nodeA, true); err != nil {
			t.Fatal(err)
		}
		o.ironic.answers()
		o.work(func(*WorkerPool) { o.becomes(nodeA, introspection.NodeWaiting, time.Second) })
		if v := o.raftLog.truth(); !slices.Equal(v.NodesByMAC(macA), []string{nodeA}) {
			t.Error("the callback will not be recognised")
		}
	})
}

// Without managed boot the start is carried out inside the request, and its
// failure is the answer.
func TestStartWithoutManagedBoot(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.ironic.ports[nodeB] = nil
		o.work(func(*WorkerPool) {
			if err := s.Start(o.ctx, nodeA, false); err != nil {
				t.Error(err)
			}
			if rec, _ := o.raftLog.truth().Record(nodeA); rec.State != introspection.NodeWaiting {
				t.Errorf("it was answered in %v", rec.State)
			}
			err := s.Start(o.ctx, nodeB, false)
			refusedWith(t, "nothing to know it by", err, 400, "No lookup attributes were found, inspector won't be able to find it after introspection, "+
				"consider creating ironic ports or providing an IPMI address")
		})
		if calls := append(o.ironic.sent("boot"), o.ironic.sent(PowerReboot)...); len(calls) > 0 {
			t.Errorf("nobody asked for %v", calls)
		}
		began := time.Now()
		err := s.Start(o.ctx, nodeA, false) // nobody works
		refusedWith(t, "no worker runs", err, 503, "The introspection of node "+nodeA+" was accepted and has not begun within 25s")
		if took := time.Since(began); took > 26*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestAbort(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		refusedWith(t, "never inspected", s.Abort(o.ctx, strings.ToUpper(nodeA)), 404, "Could not find node "+nodeA+" in cache")
		refusedWith(t, "unknown name", s.Abort(o.ctx, "nobody"), 404, "Node nobody was not found in Ironic")
		o.accept(nodeA, macA)
		const locked = "Node is locked, please, retry later"
		refusedWith(t, "starting", s.Abort(o.ctx, nodeA), 409, locked)
		o.boots(nodeB, macB)
		q := o.calls(nodeB, macB, "")
		claim := o.claims(q)
		refusedWith(t, "claimed", s.Abort(o.ctx, "name-2"), 409, locked)
		o.raftLog.must(introspection.Release{Claim: claim.Hold()})
		if err := s.Abort(o.ctx, nodeB); err != nil {
			t.Errorf("waiting: %v", err)
		}
		refusedWith(t, "aborting", s.Abort(o.ctx, nodeB), 409, locked)
		o.work(func(*WorkerPool) {
			rec := o.becomes(nodeB, introspection.NodeError, time.Second)
			if rec.Error != "Canceled by operator" || len(o.ironic.sent(PowerOff+" "+nodeB)) != 1 {
				t.Errorf("it ended with %q, %v", rec.Error, o.ironic.sent(PowerOff))
			}
		})
		before, _ := o.raftLog.truth().Record(nodeB)
		if err := s.Abort(o.ctx, nodeB); err != nil {
			t.Errorf("ended: %v", err)
		}
		if after, _ := o.raftLog.truth().Record(nodeB); after.Error != before.Error || after.Finished != before.Finished {
			t.Errorf("an abort of an ended node changed it: %+v", after)
		}
	})
}

// While there is no leader a question waits for one, as a command does; then it
// is a 503, never a 4xx.
func TestReadsWaitForALeader(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.boots(nodeA, macA)
		for _, why := range []error{logerr.ErrNoLeader, logerr.ErrNotLeader} {
			o.raftLog.leaderless(fmt.Errorf("x: %w", why))
			elected := time.AfterFunc(3*time.Second, func() { o.raftLog.leaderless(nil) })
			began := time.Now()
			if rec, err := s.Status(o.ctx, nodeA, Linearizable); err != nil || rec.State != introspection.NodeWaiting {
				t.Errorf("%v: %+v, %v", why, rec, err)
			}
			if took := time.Since(began); took < 3*time.Second || took > 3200*time.Millisecond {
				t.Errorf("%v: answered after %v", why, took)
			}
			elected.Stop()
		}
		o.raftLog.leaderless(logerr.ErrNoLeader)
		began := time.Now()
		if _, err := s.List(o.ctx, Page{Limit: 1}, Linearizable); !errors.Is(err, logerr.ErrNoLeader) || time.Since(began) > readLimit {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, err := s.Data(o.ctx, nodeA, true, Linearizable); !errors.Is(err, logerr.ErrNoLeader) {
			t.Error(err)
		}
		if rec, err := s.Status(o.ctx, nodeA, Stale); err != nil || rec.State != introspection.NodeWaiting {
			t.Errorf("stale: %+v, %v", rec, err)
		}
		o.raftLog.leaderless(logerr.ErrBusy)
		began = time.Now()
		if _, err := s.Status(o.ctx, nodeA, Linearizable); !errors.Is(err, logerr.ErrBusy) || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// What the log says instead of an answer goes through as it is.
func TestErrorsOfTheLogGoThrough(t *testing.T) {
	for _, why := range []error{logerr.ErrNoLeader, logerr.ErrBusy, logerr.ErrOutcomeUnknown, logerr.ErrMuted, context.DeadlineExceeded} {
		inRig(t, func(o *rig) {
			s := o.service()
			o.boots(nodeA, macA)
			o.raftLog.meets = func(fsm.Command) error { return why }
			_, err := s.Continue(o.ctx, []byte(callback(macA, "")))
			for what, err := range map[string]error{"start": s.Start(o.ctx, nodeB, true), "abort": s.Abort(o.ctx, nodeA), "continue": err} {
				if !errors.Is(err, why) {
					t.Errorf("%s: %v, want %v", what, err, why)
				}
			}
		})
	}
}

func TestStatus(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.boots(nodeA, macA)
		for _, ref := range []string{nodeA, strings.ToUpper(nodeA), "name-1"} {
			if rec, err := s.Status(o.ctx, ref, Linearizable); err != nil || rec.Node != nodeA {
				t.Errorf("%s: %+v, %v", ref, rec, err)
			}
		}
		_, err := s.Status(o.ctx, nodeB, Linearizable)
		refusedWith(t, "never inspected", err, 404, "Could not find node "+nodeB+" in cache")
		_, err = s.Status(o.ctx, "nobody", Linearizable)
		refusedWith(t, "unknown name", err, 404, "Node nobody was not found in Ironic")
		if calls := o.ironic.sent("node " + nodeB); len(calls) > 0 {
			t.Errorf("Ironic was asked about a UUID: %v", calls)
		}
	})
}

func TestList(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		for n := range 5 {
			o.boots(nodeN(n), macA)
			time.Sleep(time.Millisecond) // in a bubble
		}
		o.raftLog.must(introspection.Start{Node: nodeN(1), Event: introspection.EventStart, Timeout: time.Minute})
		list := func(p Page) (ns []string) {
			t.Helper()
			records, err := s.List(o.ctx, p, Linearizable)
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range records {
				ns = append(ns, rec.Node[len(rec.Node)-1:])
			}
			return ns
		}
		for _, c := range []struct {
			page Page
			want string
		}{
			{Page{Limit: 10}, "1 4 3 2 0"}, {Page{Limit: 2}, "1 4"},
			{Page{Limit: 2, Marker: nodeN(4)}, "3 2"}, {Page{Limit: 2, Marker: nodeN(0)}, ""},
			{Page{Limit: 10, States: []introspection.NodeState{introspection.NodeStarting}}, "1"},
			{Page{Limit: 1, Marker: nodeN(3), States: []introspection.NodeState{introspection.NodeWaiting, introspection.NodeError}}, "2"},
		} {
			if got := strings.Join(list(c.page), " "); got != c.want {
				t.Errorf("%+v: %s, want %s", c.page, got, c.want)
			}
		}
		_, err := s.List(o.ctx, Page{Limit: 1, Marker: nodeA}, Linearizable)
		refusedWith(t, "marker", err, http.StatusNotFound, "Node not found for marker: "+nodeA)
	})
}
