package periodic_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/inspector/periodic"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// An introspection that waits for its machine ends when another user has the node, so that its MAC
// is on the whitelist no more, and the machine keeps its power.
func TestNodeOfAnotherUserIsNotBooted(t *testing.T) {
	for _, provision := range []string{"available", "active", "deploying", "clean wait"} {
		inspecttest.InRig(t, func(o *inspecttest.Rig) {
			o.Boots(inspecttest.NodeA, inspecttest.MacA)
			o.Boots(inspecttest.NodeB, inspecttest.MacB)
			sweeps := o.Sweeps()
			o.Sweep(sweeps.EndOvertaken)
			if n := o.RaftLog.Truth().QueueLength(); n != 0 {
				t.Errorf("overtaken: %d requests while both nodes are free", n)
			}
			o.Ironic.Set(inspecttest.NodeA, func(n *ironic.Node) { n.Provision = provision })
			for range 3 {
				o.Sweep(sweeps.EndOvertaken)
			}
			o.Work(func(*inspecttest.Pool) { o.Becomes(inspecttest.NodeA, introspection.NodeError, time.Second) })
			v := o.RaftLog.Truth()
			if v.Allowed(inspecttest.MacA) || !v.Allowed(inspecttest.MacB) || len(o.Ironic.Sent("power")) > 0 {
				t.Errorf("overtaken: %s: it boots: %t, the other: %t; calls: %v", provision, v.Allowed(inspecttest.MacA),
					v.Allowed(inspecttest.MacB), o.Ironic.Sent(""))
			}
		})
	}
}

// Where nodes in use may be introspected, they are.
func TestActiveNodeMayBeBooted(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.Processing.PermitActiveIntrospection = true
		o.Boots(inspecttest.NodeA, inspecttest.MacA)
		o.Ironic.Set(inspecttest.NodeA, func(n *ironic.Node) { n.Provision = "active" })
		o.Sweep(o.Sweeps().EndOvertaken)
		if n := o.RaftLog.Truth().QueueLength(); n != 0 {
			t.Errorf("overtaken: %d requests", n)
		}
	})
}

// One node that Ironic cannot tell of keeps no other from being looked at, a round reads a bounded
// number of nodes, and each has its turn.
func TestNodesOfOtherUsersAreLookedForInTurns(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		n := periodic.MaxNodesAsked + 50
		o.Stocked(n)
		for i := range n {
			o.Boots(inspecttest.NodeN(i), fmt.Sprintf("52:54:00:01:%02x:%02x", i/256, i%256))
		}
		odd := errors.New("this node cannot be told of")
		o.Ironic.Met("node "+inspecttest.NodeN(0), odd)
		sweeps := o.Sweeps()
		leads := inspecttest.Crown{Log: o.RaftLog, Lead: o.RaftLog.Must(fsm.Lead{Peer: "id-h1", Boot: "b"}).Token}
		asked := make(map[string]int)
		for range 3 {
			before := len(o.Ironic.Sent("node "))
			if err := sweeps.EndOvertaken(o.Ctx, leads); err != nil && !errors.Is(err, odd) {
				t.Fatal(err)
			}
			calls := o.Ironic.Sent("node ")[before:]
			if len(calls) > periodic.MaxNodesAsked {
				t.Errorf("overtaken-bounded: a round reads %d nodes", len(calls))
			}
			for _, call := range calls {
				asked[call]++
			}
		}
		if len(asked) < n-1 {
			t.Errorf("overtaken-bounded: %d of %d nodes were asked about in three rounds", len(asked), n)
		}
	})
}
