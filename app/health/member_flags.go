package health

import (
	"errors"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// errMaintenance tells a balancer to send its callers elsewhere. The peer would
// serve them; an operator who says maintenance is about to stop it, and a balancer that
// drains it before costs no caller an error.
var errMaintenance = errors.New("this peer is in maintenance: it serves, but send callers to others")

// maintenanceCheck is the line of readyz.
func (s *Self) maintenanceCheck() api.HealthCheck {
	c := api.HealthCheck{Name: "maintenance"}
	if s.Members.Log.View().MemberFlags(s.Members.Self.ID).Maintenance {
		c.Err = errMaintenance
	}
	return c
}

// memberFlagWarnings tell of what operators decided and might have forgotten.
func memberFlagWarnings(h ContactView) []api.Warning {
	var resting, may []string
	v := h.view
	for _, m := range v.Voters() {
		switch {
		case v.MemberFlags(m.ID).Maintenance:
			resting = append(resting, m.Name)
		case h.live(m.ID):
			may = append(may, m.Name)
		}
	}
	if len(resting) == 0 {
		return nil
	}
	list := strings.Join(resting, ", ")
	out := []api.Warning{{Code: "maintenance", Text: "in maintenance, and so never leading nor working: " + list,
		Remedy: "when it is over: 'trivet maintenance off " + resting[0] + "'"}}
	switch len(may) {
	case 0:
		out = append(out, api.Warning{Code: "no_peer_may_lead", Text: "every voter that lives is in maintenance: none of them will lead",
			Remedy: "'trivet maintenance off' on one of them; there it needs no leader"})
	case 1:
		out = append(out, api.Warning{Code: "single_peer_may_lead", Text: "only " + may[0] + " may lead: should it die, no peer leads until maintenance ends",
			Remedy: "'trivet maintenance off', on one of " + list})
	}
	return out
}

// clocks are the sessions by whose clocks this peer's is judged: those of voters,
// and an observer's own.
func (s *Self) clocks(v fsm.View) []fsm.Session {
	if v.MemberFlags(s.Members.Self.ID).Observer {
		return v.Sessions()
	}
	return v.VoterSessions()
}

// clockSkew is how far this peer's wall clock is off the median of all peers, 0
// while that is not known.
func (s *Self) clockSkew() time.Duration {
	v := s.Members.Log.View()
	skew, _ := leader.Skew(v.Sessions(), v.Leadership().At, s.Members.Self.ID)
	return skew
}
