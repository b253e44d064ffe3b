package health

import (
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/leases"
)

// TestLeaseTablesNearFull: beyond four fifths of its bound each warns, by its own name.
func TestLeaseTablesNearFull(t *testing.T) {
	bounds := map[string]int{"leases": leases.MaxLeases, "values": leases.MaxValues,
		"group_members": leases.MaxGroupMembers, "value_bytes": leases.MaxValueBytes}
	empty := tableUsages(fsm.New().View())
	if len(empty) != len(bounds) || len(leaseTableWarnings(empty)) != 0 {
		t.Errorf("an empty cluster: %+v, %v", empty, leaseTableWarnings(empty))
	}
	for n, l := range empty {
		if l.used != 0 || l.most != bounds[l.name] {
			t.Errorf("%s: %d of %d", l.name, l.used, l.most)
		}
		tables := tableUsages(fsm.New().View())
		tables[n].used = l.most * 4 / 5
		if got := leaseTableWarnings(tables); len(got) != 0 {
			t.Errorf("%s: four fifths: %v", l.name, got)
		}
		tables[n].used += l.most/100 + 1
		if got := leaseTableWarnings(tables); len(got) != 1 || got[0].Code != "lease_table_near_full" ||
			got[0].Remedy == "" || !strings.Contains(got[0].Text, l.what) {
			t.Errorf("lease-table-near-full: %s: %v", l.name, got)
		}
	}
}
