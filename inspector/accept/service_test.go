package accept_test

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
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

func TestStartIsAccepted(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		for _, ref := range []string{inspecttest.NodeA, "name-2"} {
			if err := s.Start(o.Ctx, ref, true); err != nil {
				t.Errorf("start %s: %v", ref, err)
			}
		}
		for node, mac := range map[string]string{inspecttest.NodeA: inspecttest.MacA, inspecttest.NodeB: inspecttest.MacB} {
			rec, _ := o.RaftLog.Truth().Record(node)
			if rec.State != introspection.NodeStarting || !rec.ManageBoot || !slices.Equal(rec.Attributes.MACs, []string{mac}) {
				t.Errorf("%+v", rec)
			}
			if d := rec.Deadline.Sub(rec.Started); d != o.Conf.Timeout {
				t.Errorf("its deadline is %v away", d)
			}
		}
		err := s.Start(o.Ctx, inspecttest.NodeA, true)
		inspecttest.RefusedWith(t, "twice", err, 400,
			"Can not transition from state 'starting' on event 'start' (no defined transition)")
	})
}

func TestStartIsRefused(t *testing.T) {
	const unknown = "99999999-9999-4999-8999-999999999999"
	deployed := `Invalid provision state for introspection: "active", valid states are "['manageable', 'enroll', 'inspect wait', 'inspecting', 'inspect failed']"`
	for _, c := range []struct {
		name, ref string
		before    func(o *inspecttest.Rig)
		status    int
		message   string
	}{
		{"unknown UUID", unknown, nil, 404, "Node " + unknown + " was not found in Ironic"},
		{"unknown name", "nobody", nil, 404, "Node nobody was not found in Ironic"},
		{"UUID without dashes", strings.ReplaceAll(inspecttest.NodeA, "-", ""), nil, 404,
			"Node " + strings.ReplaceAll(inspecttest.NodeA, "-", "") + " was not found in Ironic"},
		{"deployed", inspecttest.NodeA, func(o *inspecttest.Rig) {
			o.Ironic.Set(inspecttest.NodeA, func(n *ironic.Node) { n.Provision = "active" })
		}, 400, deployed},
		{"no managed boot", inspecttest.NodeA, func(o *inspecttest.Rig) { o.Conf.CanManageBoot = false }, 400,
			"Managed boot is requested, but this installation cannot manage boot ((can_manage_boot set to False)"},
		{"Ironic away", inspecttest.NodeA, func(o *inspecttest.Rig) { o.Ironic.Met("node", inspecttest.Away()) }, 503,
			"Ironic cannot be reached: connection refused"},
		{"Ironic busy", inspecttest.NodeA, func(o *inspecttest.Rig) {
			o.Ironic.Met("validate", &ironic.Error{Status: 503, Message: "no conductor"})
		}, 503, "Ironic cannot be reached: no conductor"},
		{"Ironic fails", inspecttest.NodeA,
			func(o *inspecttest.Rig) { o.Ironic.Met("node", &ironic.Error{Status: 500, Message: "oops"}) }, 500,
			"Ironic answered 500: oops"},
		{"Ironic forbids", inspecttest.NodeA,
			func(o *inspecttest.Rig) { o.Ironic.Met("node", &ironic.Error{Status: 403, Own: true, Message: "no"}) }, 500,
			"Ironic answered 403: no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				if c.before != nil {
					c.before(o)
				}
				inspecttest.RefusedWith(t, c.name, o.Service().Start(o.Ctx, c.ref, true), c.status, c.message)
				if n := o.RaftLog.Truth().Nodes(); n != 0 {
					t.Errorf("%d records", n)
				}
			})
		})
	}
}

// What the configuration allows, the log takes; a node whose UUID was created in
// upper case has its record in lower case.
func TestLongestTimesAreTaken(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.Timeout, o.Conf.RebootThrottle = introspection.MaxTime, introspection.MaxGap
		bounds := make(map[string]string)
		for _, option := range config.Options() {
			bounds[option.Key] = option.Bounds()
		}
		if got := bounds["inspection.timeout"] + "; " +
			bounds["inspection.reboot_throttle"]; got != "more than 0s, at most 168h; 0s to 1h" {
			t.Errorf("the configuration allows %s", got)
		}
		upper := strings.ToUpper(inspecttest.NodeB)
		o.Ironic.Set(inspecttest.NodeB, func(n *ironic.Node) { n.UUID = upper })
		for _, ref := range []string{inspecttest.NodeA, "name-2"} {
			if err := o.Service().Start(o.Ctx, ref, true); err != nil {
				t.Errorf("%s: %v", ref, err)
			}
		}
		o.Work(func(*work.Pool) {
			for _, node := range []string{inspecttest.NodeA, inspecttest.NodeB} {
				o.Becomes(node, introspection.NodeWaiting, introspection.MaxGap+time.Minute)
			}
		})
		if got := o.Ironic.Sent(ironic.PowerReboot); len(got) != 2 {
			t.Errorf("powered on: %v", got)
		}
	})
}

// The power interface is Ironic's to judge, and its sentence is passed on.
func TestStartNeedsPower(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := accept.NewService(accept.Options{Live: o.Live(), Log: o.RaftLog, Do: o.Member, Notifier: o.Notifier,
			Ironic: powerless{o.Ironic}, Packer: o.Packer, Logger: o.Log})
		inspecttest.RefusedWith(t, "no power", s.Start(o.Ctx, inspecttest.NodeA, true), 400,
			"Failed validation of power interface: Validation failed for required interfaces of node "+inspecttest.NodeA+
				": power (no IPMI address)")
		if err := o.Ironic.SetPower(o.Ctx, inspecttest.NodeA, ironic.PowerOff); err != nil {
			t.Error(err)
		}
	})
}

type powerless struct{ *inspecttest.IronicModel }

func (powerless) PowerValid(context.Context, string) (bool, string, error) {
	return false, "no IPMI address", nil
}

// Ports that cannot be listed at once are the worker's business.
func TestStartWithoutPorts(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Ironic.Met("ports", &ironic.Error{Status: 500, Message: "not now"})
		if err := o.Service().Start(o.Ctx, inspecttest.NodeA, true); err != nil {
			t.Fatal(err)
		}
		o.Ironic.Answers()
		o.Work(func(*work.Pool) { o.Becomes(inspecttest.NodeA, introspection.NodeWaiting, time.Second) })
		if v := o.RaftLog.Truth(); !slices.Equal(v.NodesByMAC(inspecttest.MacA), []string{inspecttest.NodeA}) {
			t.Error("the callback will not be recognised")
		}
	})
}

// Without managed boot the start is carried out inside the request, and its
// failure is the answer.
func TestStartWithoutManagedBoot(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Ironic.PortsOf[inspecttest.NodeB] = nil
		o.Work(func(*work.Pool) {
			if err := s.Start(o.Ctx, inspecttest.NodeA, false); err != nil {
				t.Error(err)
			}
			if rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA); rec.State != introspection.NodeWaiting {
				t.Errorf("it was answered in %v", rec.State)
			}
			err := s.Start(o.Ctx, inspecttest.NodeB, false)
			inspecttest.RefusedWith(t, "nothing to know it by", err, 400,
				"No lookup attributes were found, inspector won't be able to find it after introspection, "+
					"consider creating ironic ports or providing an IPMI address")
		})
		if calls := append(o.Ironic.Sent("boot"), o.Ironic.Sent(ironic.PowerReboot)...); len(calls) > 0 {
			t.Errorf("nobody asked for %v", calls)
		}
		began := time.Now()
		err := s.Start(o.Ctx, inspecttest.NodeA, false) // nobody works
		inspecttest.RefusedWith(t, "no worker runs", err, 503,
			"The introspection of node "+inspecttest.NodeA+" was accepted and has not begun within 25s")
		if took := time.Since(began); took > 26*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestAbort(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		inspecttest.RefusedWith(t, "never inspected", s.Abort(o.Ctx, strings.ToUpper(inspecttest.NodeA)), 404,
			"Could not find node "+inspecttest.NodeA+" in cache")
		inspecttest.RefusedWith(t, "unknown name", s.Abort(o.Ctx, "nobody"), 404, "Node nobody was not found in Ironic")
		o.Accept(inspecttest.NodeA, inspecttest.MacA)
		const locked = "Node is locked, please, retry later"
		inspecttest.RefusedWith(t, "starting", s.Abort(o.Ctx, inspecttest.NodeA), 409, locked)
		o.Boots(inspecttest.NodeB, inspecttest.MacB)
		q := o.Calls(inspecttest.NodeB, inspecttest.MacB, "")
		claim := o.Claims(q)
		inspecttest.RefusedWith(t, "claimed", s.Abort(o.Ctx, "name-2"), 409, locked)
		o.RaftLog.Must(introspection.Release{Claim: claim.Hold()})
		if err := s.Abort(o.Ctx, inspecttest.NodeB); err != nil {
			t.Errorf("waiting: %v", err)
		}
		inspecttest.RefusedWith(t, "aborting", s.Abort(o.Ctx, inspecttest.NodeB), 409, locked)
		o.Work(func(*work.Pool) {
			rec := o.Becomes(inspecttest.NodeB, introspection.NodeError, time.Second)
			if rec.Error != "Canceled by operator" || len(o.Ironic.Sent(ironic.PowerOff+" "+inspecttest.NodeB)) != 1 {
				t.Errorf("it ended with %q, %v", rec.Error, o.Ironic.Sent(ironic.PowerOff))
			}
		})
		before, _ := o.RaftLog.Truth().Record(inspecttest.NodeB)
		if err := s.Abort(o.Ctx, inspecttest.NodeB); err != nil {
			t.Errorf("ended: %v", err)
		}
		if after, _ := o.RaftLog.Truth().Record(inspecttest.NodeB); after.Error != before.Error ||
			after.Finished != before.Finished {
			t.Errorf("an abort of an ended node changed it: %+v", after)
		}
	})
}

// While there is no leader a question waits for one, as a command does; then it
// is a 503, never a 4xx.
func TestReadsWaitForALeader(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		for _, why := range []error{logerr.ErrNoLeader, logerr.ErrNotLeader} {
			o.RaftLog.Leaderless(fmt.Errorf("x: %w", why))
			elected := time.AfterFunc(3*time.Second, func() { o.RaftLog.Leaderless(nil) })
			began := time.Now()
			if rec, err := s.Status(o.Ctx, inspecttest.NodeA, inspector.Linearizable); err != nil ||
				rec.State != introspection.NodeWaiting {
				t.Errorf("%v: %+v, %v", why, rec, err)
			}
			if took := time.Since(began); took < 3*time.Second || took > 3200*time.Millisecond {
				t.Errorf("%v: answered after %v", why, took)
			}
			elected.Stop()
		}
		o.RaftLog.Leaderless(logerr.ErrNoLeader)
		began := time.Now()
		if _, err := s.List(o.Ctx, accept.Page{Limit: 1}, inspector.Linearizable); !errors.Is(err, logerr.ErrNoLeader) ||
			time.Since(began) > 7*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, err := s.Data(o.Ctx, inspecttest.NodeA, true, inspector.Linearizable); !errors.Is(err, logerr.ErrNoLeader) {
			t.Error(err)
		}
		if rec, err := s.Status(o.Ctx, inspecttest.NodeA, inspector.Stale); err != nil ||
			rec.State != introspection.NodeWaiting {
			t.Errorf("stale: %+v, %v", rec, err)
		}
		o.RaftLog.Leaderless(logerr.ErrBusy)
		began = time.Now()
		if _, err := s.Status(o.Ctx, inspecttest.NodeA, inspector.Linearizable); !errors.Is(err, logerr.ErrBusy) ||
			time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// What the log says instead of an answer goes through as it is.
func TestErrorsOfTheLogGoThrough(t *testing.T) {
	for _, why := range []error{logerr.ErrNoLeader, logerr.ErrBusy, logerr.ErrOutcomeUnknown, logerr.ErrMuted,
		context.DeadlineExceeded} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			s := o.Service()
			o.Boots(inspecttest.NodeA, inspecttest.MacA)
			o.RaftLog.Meets = func(fsm.Command) error { return why }
			_, err := s.Continue(o.Ctx, []byte(inspecttest.Callback(inspecttest.MacA, "")))
			for what, err := range map[string]error{"start": s.Start(o.Ctx, inspecttest.NodeB, true),
				"abort": s.Abort(o.Ctx, inspecttest.NodeA), "continue": err} {
				if !errors.Is(err, why) {
					t.Errorf("%s: %v, want %v", what, err, why)
				}
			}
		})
	}
}

func TestStatus(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		for _, ref := range []string{inspecttest.NodeA, strings.ToUpper(inspecttest.NodeA), "name-1"} {
			if rec, err := s.Status(o.Ctx, ref, inspector.Linearizable); err != nil || rec.Node != inspecttest.NodeA {
				t.Errorf("%s: %+v, %v", ref, rec, err)
			}
		}
		_, err := s.Status(o.Ctx, inspecttest.NodeB, inspector.Linearizable)
		inspecttest.RefusedWith(t, "never inspected", err, 404, "Could not find node "+inspecttest.NodeB+" in cache")
		_, err = s.Status(o.Ctx, "nobody", inspector.Linearizable)
		inspecttest.RefusedWith(t, "unknown name", err, 404, "Node nobody was not found in Ironic")
		if calls := o.Ironic.Sent("node " + inspecttest.NodeB); len(calls) > 0 {
			t.Errorf("Ironic was asked about a UUID: %v", calls)
		}
	})
}

func TestList(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		s := o.Service()
		for n := range 5 {
			o.Boots(inspecttest.NodeN(n), inspecttest.MacA)
			time.Sleep(time.Millisecond) // in a bubble
		}
		o.RaftLog.Must(introspection.Start{Node: inspecttest.NodeN(1), Event: introspection.EventStart, Timeout: time.Minute})
		list := func(p accept.Page) (ns []string) {
			t.Helper()
			records, err := s.List(o.Ctx, p, inspector.Linearizable)
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range records {
				ns = append(ns, rec.Node[len(rec.Node)-1:])
			}
			return ns
		}
		for _, c := range []struct {
			page accept.Page
			want string
		}{
			{accept.Page{Limit: 10}, "1 4 3 2 0"}, {accept.Page{Limit: 2}, "1 4"},
			{accept.Page{Limit: 2, Marker: inspecttest.NodeN(4)}, "3 2"},
			{accept.Page{Limit: 2, Marker: inspecttest.NodeN(0)}, ""},
			{accept.Page{Limit: 10, States: []introspection.NodeState{introspection.NodeStarting}}, "1"},
			{accept.Page{Limit: 1, Marker: inspecttest.NodeN(3),
				States: []introspection.NodeState{introspection.NodeWaiting, introspection.NodeError}}, "2"},
		} {
			if got := strings.Join(list(c.page), " "); got != c.want {
				t.Errorf("%+v: %s, want %s", c.page, got, c.want)
			}
		}
		_, err := s.List(o.Ctx, accept.Page{Limit: 1, Marker: inspecttest.NodeA}, inspector.Linearizable)
		inspecttest.RefusedWith(t, "marker", err, http.StatusNotFound, "Node not found for marker: "+inspecttest.NodeA)
	})
}
