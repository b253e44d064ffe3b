//go:build e2e

package app

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/test/testwait"
)

func TestOperatorsReachFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a peer")
	}
	peer := kubePeer(t, apiServer(t))
	k := peer.Admin().Kube.Here
	f := judged(t, peer)
	n := f.Nodes[0]
	if f.Leader != "h1" || f.Mode != "safe" || f.Clusters[0].Name != "prod" || f.Clusters[0].Nodes != 1 ||
		n.Cluster != "prod" || n.Name != "w1" || n.Ready != "True" || n.BootID != "b1" ||
		n.Act || len(n.Why) == 0 || n.Would == "" || n.Remediation != nil {
		t.Errorf("%+v", f)
	}

	s, err := k.Simulate(t.Context(), admin.AnyCluster, "w1", "")
	if err != nil || s.Cluster != "prod" || s.Peer != "h1" || s.Problem != "" || len(s.Devices) != 1 ||
		s.Devices[0] != "bmc" ||
		len(s.Delete) != 1 || s.Delete[0] != "default/db-0" || len(s.Keep) != 1 || s.Keep[0].Pod != "default/proxy" {
		t.Errorf("%+v %v", s, err)
	}
	if b, err := k.Simulate(t.Context(), admin.AnyCluster, "w1", "noobaa"); err != nil || b.Mode != "noobaa" || !b.Would ||
		len(b.Devices) != 0 || len(b.Delete) != 0 || len(b.Keep) != 2 ||
		!strings.Contains(b.Problem, "failover.noobaa_namespace") {
		t.Errorf("simulate-mode: %+v %v", b, err)
	}
	if s.Would || len(s.Why) == 0 {
		t.Errorf("the only kube node would be switched off: %+v", s)
	}
	wantCode(t, api.CodeNotFound, func() error { _, err := k.Simulate(t.Context(), "prod", "w9", ""); return err })

	testPower(t, k)
	wantFigures(t, peer)
	body, self, err := peer.Admin().Kube.AskLeader(t.Context(), admin.PathPeerFailover)
	if body != nil || !self || err != nil {
		t.Errorf("the leader asks itself: %q %v %v", body, self, err)
	}
	wantRefusals(t, k)
}

// testPower asks for the machine's power and switches it by hand.
func testPower(t *testing.T, k admin.Kube) {
	t.Helper()
	power := func(order *admin.PowerOrder) admin.DevicePower {
		t.Helper()
		out, err := k.Power(t.Context(), admin.AnyCluster, "w1", order)
		if err != nil || out.Peer != "h1" || out.Cluster != "prod" || out.Note != "" || len(out.Devices) != 1 {
			t.Fatalf("%+v %v", out, err)
		}
		return out.Devices[0]
	}
	for _, step := range []struct {
		order *admin.PowerOrder
		power string
	}{{nil, "on"}, {&admin.PowerOrder{Power: "off"}, "off"}, {nil, "off"},
		{&admin.PowerOrder{Power: "on", Device: "bmc"}, "on"}, {nil, "on"}} {
		got := power(step.order)
		if got.Power != step.power || got.Error != "" || step.order != nil && got.Done != step.power {
			t.Errorf("%+v: %+v", step.order, got)
		}
	}
}

// wantRefusals asks for what is not there.
func wantRefusals(t *testing.T, k admin.Kube) {
	t.Helper()
	for name, ask := range map[string]func() error{
		"no such kube node":   func() error { _, err := k.Power(t.Context(), "prod", "w9", nil); return err },
		"no cluster knows it": func() error { _, err := k.Power(t.Context(), admin.AnyCluster, "w9", nil); return err },
		"no such cluster":     func() error { _, err := k.Power(t.Context(), "test", "w1", nil); return err },
		"no device of that name": func() error {
			_, err := k.Power(t.Context(), "prod", "w1", &admin.PowerOrder{Power: "off", Device: "x"})
			return err
		},
		"no such cluster to judge":  func() error { _, err := k.Simulate(t.Context(), "test", "w1", ""); return err },
		"no such kube node at once": func() error { _, err := k.Simulate(t.Context(), admin.AnyCluster, "", ""); return err },
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, api.CodeNotFound, ask) })
	}
}

// wantFigures looks at what the leader's registry has of a healthy cluster.
func wantFigures(t *testing.T, peer *Peer) {
	t.Helper()
	families, err := peer.figures.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]float64)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			seen[name] = m.GetGauge().GetValue()
		}
	}
	if seen["trivet_failover_api_server_answers prod"] != 1 || seen["trivet_failover_kube_nodes prod well"] != 1 ||
		seen["trivet_failover_votes_withdrawn prod"] != 0 {
		t.Errorf("figures %v", seen)
	}
}

func wantCode(t *testing.T, code string, ask func() error) {
	t.Helper()
	var refused *api.Error
	if err := ask(); !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("%v, want %s", err, code)
	}
}

// While a remediation is open, nobody switches its machine from under it.
func TestAMachineInRemediationIsNotSwitched(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a peer")
	}
	peer := kubePeer(t, apiServer(t), "failover.dry_run", "true") // so that nobody carries it out
	k := peer.Admin().Kube.Here
	if f := judged(t, peer); !f.DryRun {
		t.Errorf("a dry run is not told: %+v", f)
	}
	res, err := peer.core.Store.Propose(t.Context(), fsm.Header{Token: peer.core.Runner.Token()},
		kubestate.BeginRemediation{Cluster: "prod", Node: "w1", UID: "u1", BootID: "b1", Reason: "silent", Millis: 1})
	if err == nil {
		err = res.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range []string{admin.PowerOff, admin.PowerOn} {
		wantCode(t, api.CodeConflict, func() error {
			out, err := k.Power(t.Context(), "prod", "w1", &admin.PowerOrder{Power: order})
			if len(out.Devices) > 0 {
				t.Errorf("switched %s: %+v", order, out)
			}
			return err
		})
	}
	if out, err := k.Power(t.Context(), "prod", "w1", nil); err != nil || len(out.Devices) != 1 ||
		out.Devices[0].Power != "on" {
		t.Errorf("asked: %+v %v", out, err)
	}
	testwait.Within(t, testwait.Limit, "the remediation is shown", func() error {
		f, err := k.Failover(t.Context()) // by now it may be held, with its only kube node in remediation
		if err != nil || len(f.Nodes) != 1 {
			t.Fatalf("%+v %v", f, err)
		}
		if r := f.Nodes[0].Remediation; r != nil && r.ID == res.Token && r.State == "intent" {
			return nil
		}
		return fmt.Errorf("%+v", f)
	})
}
