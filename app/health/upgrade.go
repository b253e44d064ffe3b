package health

import (
	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
)

// upgrade tells of one that is not finalized, nil if there is none.
func (s *Self) upgrade(v fsm.View, reports map[string]hostReport) *api.Upgrade {
	at := v.ClusterVersion()
	if at >= fsm.Version || v.ClusterID() == "" { // else the log has yet to come
		return nil
	}
	out := &api.Upgrade{LogVersion: at, Newest: fsm.Version, HeldBack: fsm.HeldBack(at)}
	for _, m := range byName(v.Members()) {
		if reports[m.ID].Knows < fsm.Version {
			out.WaitsFor = append(out.WaitsFor, m.Name)
		}
	}
	if ran, all := cluster.AllRunFor(v); all && len(out.WaitsFor) == 0 {
		out.Since = api.TimeText(s.Wall().Add(-ran))
	}
	return out
}
