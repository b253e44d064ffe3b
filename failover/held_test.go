package failover

import (
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// What an operator wants counts before what else forbids, but for a dry run, which says what would be done.
func TestHeldByWhatForbidsFirst(t *testing.T) {
	for _, c := range []struct {
		rails []string
		held  bool
	}{
		{nil, false}, {[]string{"no-device", "paused"}, false}, {[]string{"planned", "storm"}, false},
		{[]string{"dry-run", "no-device"}, true}, {[]string{"storm", "no-device"}, true},
	} {
		f := factsOf()
		for _, name := range c.rails {
			railCases()[name].change(f, f.nodes[0])
		}
		if v := f.judgeNode(f.nodes[0]); v.Held() != c.held {
			t.Errorf("held: with %v it is told to be left alone: %v", c.rails, v.Held())
		}
		f.nodes[0].remediation = &kubestate.Remediation{State: kubestate.RemIntent}
		if v := f.judgeNode(f.nodes[0]); v.Held() {
			t.Errorf("held: under its remediation it is told to be left alone, with %v", c.rails)
		}
	}
}

func TestRailsAreNamedOnce(t *testing.T) {
	var names []string
	for _, r := range rails() {
		names = append(names, r.name)
	}
	if sorted := slices.Sorted(slices.Values(names)); len(slices.Compact(sorted)) != len(names) {
		t.Errorf("a name stands twice: %v", names)
	}
	if names[len(names)-1] != dryRunRail {
		t.Error("the dry run is not last: what it alone forbids would not be told")
	}
}
