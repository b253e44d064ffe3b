package firewall

import (
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/test/memlog"
)

// A port that is created after the start lets its machine in, and no other machine of Ironic's.
func TestPortAfterTheStartLetsItsMachineIn(t *testing.T) {
	l := memlog.New(t)
	ports := []ironicports.Port{port(1), port(2)}
	start := introspection.Start{Node: ports[0].Node, Event: introspection.EventStart, ManageBoot: true,
		Timeout: time.Hour, Attributes: introspection.Attributes{BMC: []string{"198.18.0.1"}}}
	if res, err := l.Do(t.Context(), "", start); err != nil || res.Err() != nil {
		t.Fatal(res, err)
	}
	if res, err := l.DoAsLeader(ironicports.PutPorts{Complete: true, Ports: ports}); err != nil || res.Err() != nil {
		t.Fatal(res, err)
	}
	want := []string{ports[0].MAC}
	rules := Desired(l.View(), true, Policy{})
	if !slices.Equal(rules.Allow, want) || Count(l.View(), true, Policy{}) != rules.Counts() {
		t.Errorf("late-port: allowed are %v, counted %d, want %v", rules.Allow, Count(l.View(), true, Policy{}).Allow, want)
	}
}

// A port that Ironic did not name at the start is one that the list of ports lost sight of: its card may be
// in a machine in use, whose boot the filter goes on to deny.
func TestPortThatIronicNoLongerHasLetsNothingIn(t *testing.T) {
	l := memlog.New(t)
	own, moved := port(1), port(2)
	moved.Node = own.Node
	if res, err := l.DoAsLeader(ironicports.PutPorts{Complete: true, Ports: []ironicports.Port{own, moved}}); err != nil ||
		res.Err() != nil {
		t.Fatal(res, err)
	}
	start := introspection.Start{Node: own.Node, Event: introspection.EventStart, ManageBoot: true, Timeout: time.Hour,
		Attributes: introspection.Attributes{MACs: []string{own.MAC}}}
	if res, err := l.Do(t.Context(), "", start); err != nil || res.Err() != nil {
		t.Fatal(res, err)
	}
	rules := Desired(l.View(), true, Policy{})
	if !slices.Equal(rules.Allow, []string{own.MAC}) || !slices.Contains(rules.Deny, moved.MAC) {
		t.Errorf("stale-port: allowed are %v, denied %v", rules.Allow, rules.Deny)
	}
}
