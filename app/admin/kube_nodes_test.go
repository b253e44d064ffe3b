package admin

import (
	"context"
	"fmt"
	"strings"
	"testing"

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
