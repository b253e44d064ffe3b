package app

import (
	"context"
	"errors"
	"strings"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
)

// maintained says whether an operator has put this peer into maintenance.
func (c *Core) maintained() bool { return c.Store.View().MemberFlags(c.Store.ID()).Maintenance }

// followMaintenance lets the workers claim nothing while this peer is in
// maintenance; what they have begun they end.
func (c *Core) followMaintenance(ctx context.Context) {
	rests := false
	for {
		_, changed := c.Store.Changed()
		if now := c.maintained(); now != rests {
			rests = now
			c.log.Info("maintenance changed", "maintenance", now)
			c.inspect.Workers.Pause(now)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// abdicate lets go of a leadership that this peer must not have and that nobody
// took from it.
func (c *Core) abdicate(ctx context.Context) {
	c.Fitness.Yield()
	c.Store.Abdicate(ctx)
}

// errMaintenance tells a balancer to send its callers elsewhere. The peer would
// serve them; whoever says maintenance is about to stop it, and a balancer that
// drains it before costs no caller an error.
var errMaintenance = errors.New("this peer is in maintenance: it serves, but send callers to others")

// maintenanceCheck is the line of readyz.
func (p *Peer) maintenanceCheck() api.HealthCheck {
	c := api.HealthCheck{Name: "maintenance"}
	if p.core.maintained() {
		c.Err = errMaintenance
	}
	return c
}

// memberFlagWarnings tell of what operators decided and might have forgotten.
func memberFlagWarnings(h contactView) []api.Warning {
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
		out = append(out, api.Warning{Code: "no_peer_may_lead", Text: "every voter that lives is in maintenance: nobody will lead",
			Remedy: "'trivet maintenance off' on one of them; there it needs no leader"})
	case 1:
		out = append(out, api.Warning{Code: "single_peer_may_lead", Text: "only " + may[0] + " may lead: should it die, nobody does until maintenance ends",
			Remedy: "'trivet maintenance off', on one of " + list})
	}
	return out
}

// clocks are the sessions by whose clocks this peer's is judged: those of voters,
// and an observer's own.
func (p *Peer) clocks(v fsm.View) []fsm.Session {
	if v.MemberFlags(p.id.ID).Observer {
		return v.Sessions()
	}
	return v.VoterSessions()
}
