package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// A machine that failover has switched off is switched on through Trivet once its last volume is
// detached; in each other state, and for each other order, the refusal says what to do.
func TestDetachedMachineIsSwitchedOnByHand(t *testing.T) {
	log, _ := kubeLog(t)
	duty := log.lead()
	intent := log.duty(duty, kubestate.BeginRemediation{Cluster: "prod", Node: "w1", UID: "u1", BootID: "b1", Peer: "a",
		Reason: "silent", Millis: 1})
	asks := func(power string) (refused bool, hint string) {
		err := inHand(log.View(), failover.Machine{Cluster: "prod", Node: "w1"}, power)
		if err == nil {
			return false, ""
		}
		return true, api.Refusal(err).Hint
	}
	for at := kubestate.RemIntent; ; {
		on, hint := asks(PowerOn)
		off, _ := asks(PowerOff)
		if at == kubestate.RemDetached {
			if on || !off {
				t.Errorf("on-by-hand: at detached on is refused: %v (%s), off: %v", on, hint, off)
			}
			break
		}
		if !on || !off || !strings.Contains(hint, "until it is detached") {
			t.Errorf("on-by-hand: at %v on is refused: %v (%s), off: %v", at, on, hint, off)
		}
		step := kubestate.StepRemediation{Intent: intent, From: at, To: at + 1, Peer: "a", Millis: 2}
		if step.To == kubestate.RemFencing {
			step.Device = "bmc"
		}
		log.duty(duty, step)
		at++
	}
	if err := inHand(log.View(), failover.Machine{Cluster: "lab", Node: "w1"}, PowerOff); err != nil {
		t.Errorf("on-by-hand: a kube node of another cluster: %v", err)
	}
}

// oneCluster has a kube node that was never Ready, w9, of which the log has nothing.
type oneCluster struct{ failover.Cluster }

func (oneCluster) Name() string { return "prod" }

func (oneCluster) Node(_ context.Context, name string) (failover.Node, error) {
	if name != "w9" {
		return failover.Node{}, fmt.Errorf("no such Node: %w", failover.ErrGone)
	}
	return failover.Node{Name: name, UID: "u9"}, nil
}

type noDevices struct{}

func (noDevices) For(failover.Machine) []failover.Device { return nil }

// TestPowerOfANodeThatWasNeverReady: where one cluster is configured, its API server says whether there
// is such a kube node, as for CLUSTER/NODE.
func TestPowerOfANodeThatWasNeverReady(t *testing.T) {
	defer func() {
		if went := recover(); went != nil {
			t.Errorf("never-ready: it was looked for in the log: %v", went)
		}
	}()
	k := &KubeNodes{Here: &Here{}, Controller: failover.NewController(failover.ControllerOptions{}),
		Clusters: []failover.Cluster{oneCluster{}}, Fences: noDevices{}}
	if out, err := k.Power(t.Context(), AnyCluster, "w9", nil); err != nil || out.Cluster != "prod" || out.Note != "" {
		t.Errorf("never-ready: %+v, %v", out, err)
	}
	if _, err := k.Power(t.Context(), AnyCluster, "w8", nil); api.Refusal(err).Code != api.CodeNotFound {
		t.Errorf("never-ready: one that is none: %v", err)
	}
}

// fakeStrip is a power strip that reads one thing.
type fakeStrip struct {
	failover.Device
	name  string
	power failover.Power
	err   error
}

func (s fakeStrip) Name() string { return s.name }
func (s fakeStrip) Power(context.Context, failover.Machine) (failover.Power, error) {
	return s.power, s.err
}

// fakeStrips are several as one device, which is on as soon as the first is.
type fakeStrips []fakeStrip

func (g fakeStrips) Name() string { return "strips" }
func (g fakeStrips) Members() (out []failover.Device) {
	for _, s := range g {
		out = append(out, s)
	}
	return out
}
func (g fakeStrips) Power(ctx context.Context, m failover.Machine) (failover.Power, error) {
	return g[0].Power(ctx, m)
}
func (fakeStrips) Off(context.Context, failover.Machine) error { return nil }
func (fakeStrips) On(context.Context, failover.Machine) error  { return nil }

// A machine is switched off by all of its power strips: each of them has a row of its own, also
// after one of them says on.
func TestEveryPowerStripIsAsked(t *testing.T) {
	m := failover.Machine{Cluster: "prod", Node: "w1", AskOnly: true}
	on, off := fakeStrip{name: "a", power: failover.PowerOn}, fakeStrip{name: "b", power: failover.PowerOff}
	mute := fakeStrip{name: "b", err: errors.New("no route to host")}
	for want, second := range map[string]fakeStrip{
		"no route to host": mute,
		"'trivet failover test-fence prod/w1 --on --device b' switches it on": off,
		"": {name: "b", power: failover.PowerOn},
	} {
		rows := askMembers(t.Context(), fakeStrips{on, second}, m)
		if len(rows) != 2 || rows[0].Device != "a" || rows[0].Error != "" || rows[1].Device != "b" ||
			!strings.Contains(rows[1].Error, want) || (rows[1].Error == "") != (want == "") {
			t.Errorf("every-strip: %+v, want %q of the second", rows, want)
		}
	}
	if rows := askMembers(t.Context(), off, m); len(rows) != 1 || rows[0].Power != "off" || rows[0].Error != "" {
		t.Errorf("every-strip: of one alone %+v", rows)
	}
	synctest.Test(t, func(t *testing.T) {
		if row := awaitPower(t.Context(), fakeStrips{on, off}, m, failover.PowerOn); row.Device != "b" || row.Error == "" {
			t.Errorf("every-strip: switched on, and the second stays off: %+v", row)
		}
		row := awaitPower(t.Context(), fakeStrips{off, off}, m, failover.PowerOff)
		if row.Device != "strips" || row.Error != "" {
			t.Errorf("every-strip: switched off: %+v", row)
		}
	})
}
