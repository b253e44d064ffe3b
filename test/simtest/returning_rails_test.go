package simtest

import (
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

const (
	// maxRails is how many rails forbid at once: nothing would happen under many.
	maxRails = 2
	// stepAwaited is how long a remediation in a certain state is waited for.
	stepAwaited = 45 * time.Second
)

// rail is one that forbids now.
type rail struct {
	kind railKind
	node string
}

// turnRails lets one more rail forbid, of a kube node under remediation if there is one,
// and lifts the oldest where there are too many.
func (r *returning) turnRails() {
	rng := r.c.rng
	for len(r.rails) >= maxRails || len(r.rails) > 0 && rng.IntN(3) == 0 {
		r.lift()
	}
	node := r.names[rng.IntN(len(r.names))]
	if v, ok := r.c.newest(); ok && rng.IntN(3) > 0 {
		if open := v.Remediations(); len(open) > 0 {
			node = open[rng.IntN(len(open))].Node
		}
	}
	r.forbid(node)
}

// forbid lets a rail of any kind forbid to take the power of a kube node.
func (r *returning) forbid(node string) {
	one := rail{railKinds()[r.c.rng.IntN(len(railKinds()))], node}
	if !one.kind.ofNode() {
		one.node = ""
	}
	if slices.Contains(r.rails, one) {
		return
	}
	r.rails = append(r.rails, one)
	r.returns.rails++
	r.setRail(one.kind, one.node, true)
	if one.kind == railPause {
		r.command(kubestate.PauseFailover{Paused: true, By: "operator"})
	}
}

// lift ends the oldest rail.
func (r *returning) lift() {
	one := r.rails[0]
	r.rails = r.rails[1:]
	r.setRail(one.kind, one.node, false)
	for one.kind == railPause {
		r.command(kubestate.PauseFailover{})
		if v, ok := r.c.newest(); ok {
			if _, paused := v.FailoverPause(kubeCluster); !paused {
				return
			}
		}
		time.Sleep(time.Second) // in a bubble
		r.c.revive()
	}
}

// loseAtStep loses the leader at a step of a remediation, in the moment in which a rail
// begins to forbid the next.
func (r *returning) loseAtStep() {
	steps := []kubestate.State{
		kubestate.RemIntent, kubestate.RemCordoned, kubestate.RemFencing, kubestate.RemOff, kubestate.RemTainted,
		kubestate.RemDeleted, kubestate.RemDetached, kubestate.RemStuck,
	}
	step, node := steps[r.c.rng.IntN(len(steps))], ""
	for end := time.Now().Add(stepAwaited); node == "" && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond) // in a bubble
		if v, ok := r.c.newest(); ok {
			for _, m := range v.Remediations() {
				if m.State == step {
					node = m.Node
				}
			}
		}
	}
	if node != "" {
		losses := Losses()
		r.forbid(node)
		r.c.Lose(losses[r.c.rng.IntN(len(losses))])
		r.returns.leaders++
	}
}

// holdOne lets a machine leave whose device is away, and its operator opt it out before the
// device is back.
func (r *returning) holdOne() {
	node := r.names[returnMasters+r.c.rng.IntN(len(r.names)-returnMasters)]
	r.setRail(railDevice, node, true)
	r.with(r.nodes[node].darken)
	r.c.Until(movedWithin, "the remediation of "+node+" is stuck", func() bool {
		v, _ := r.c.newest()
		m, open := v.OpenRemediation(kubeCluster, "uid-"+node)
		return open && m.State == kubestate.RemStuck
	})
	r.setRail(railOptOut, node, true)
	r.setRail(railDevice, node, false)
	r.elapse(lookedAt)
	r.setRail(railOptOut, node, false)
}

// countWaits counts a second for each open remediation that a rail holds.
func (r *returning) countWaits() {
	v, ok := r.c.newest()
	if !ok {
		return
	}
	r.with(func() {
		for _, m := range v.Remediations() {
			if !m.WasOff && r.against(time.Now(), r.nodes[m.Node], m, v) != "" {
				r.returns.waits++
			}
		}
	})
}
