package health

import (
	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/waits"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm"
)

// WaitsOf lists what a node waits for.
func (s *Self) WaitsOf(node string) []api.Wait {
	v := s.Members.Log.View()
	return s.sight(v, s.hosts(s.Members.Hearing(v), s.reports(v))).Of(node)
}

// sight is what this peer sees, by which waits are judged.
func (s *Self) sight(v fsm.View, seen api.Status) waits.Sight {
	lead, _ := s.Members.Log.Leader()
	out := waits.Sight{View: v, Config: s.Door.Config(), Wall: s.Wall(), Leader: lead.ID, Servers: s.Members.Log.Servers(),
		Seen: seen, Idle: failover.Settings{}.Idle()}
	if s.Kube != nil {
		out.Idle = s.Kube.Settings.Idle()
	}
	return out
}
