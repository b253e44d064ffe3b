package health

import (
	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/leases"
)

// tableUsage is one table that other programs fill: leases, values, group members. Entries stay,
// free leases above all, and the table fills unnoticed.
type tableUsage struct {
	name, what string
	used, most int
	remedy     string
}

func tableUsages(v fsm.View) []tableUsage {
	return []tableUsage{
		{"leases", "leases, free ones with them", v.LeaseCount(), leases.MaxLeases,
			"have free ones forgotten: 'trivet lease list', 'trivet lease forget NAME'"},
		{"values", "values", v.ValueCount(), leases.MaxValues,
			"find who writes them and have some deleted: GET and DELETE /v1/kv"},
		{"group_members", "members of groups", v.GroupMemberCount(), leases.MaxGroupMembers,
			"find who joins so often: GET /v1/groups/COMPONENT"},
		{"value_bytes", "bytes of values", v.ValueBytes(), leases.MaxValueBytes,
			"find who writes them and have some deleted: GET and DELETE /v1/kv"},
	}
}

func leaseTableWarnings(tables []tableUsage) []api.Warning {
	var out warningList
	for _, l := range tables {
		if 5*l.used > 4*l.most { // more than four fifths are in use
			out.add("lease_table_near_full", l.remedy,
				"there are %d %s, of %d that may be: at the last one programs are refused", l.used, l.what, l.most)
		}
	}
	return out
}
