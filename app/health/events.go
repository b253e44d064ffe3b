package health

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/internal/pace"
)

const (
	// hostLook is how often a peer looks at its PXE service and its leader, and
	// hostSurvey, how often at its warnings, which cost more.
	hostLook   = 250 * time.Millisecond
	hostSurvey = 2 * time.Second
	// silenceTold is how long a peer hears of no leader before that is an event: a
	// change of leaders takes less.
	silenceTold = 5 * time.Second
	// maxClosings bounds the closings that wait to be told: one a leadership.
	maxClosings = 16
)

// hostFacts is what a peer sees of its own host.
type hostFacts struct {
	now     time.Time // of the wall clock
	led     bool      // a leader is known, and this peer has a session
	guard   firewall.GuardStatus
	drift   int       // how often another program changed the rules, since this peer started
	drifted time.Time // the newest time
	view    fsm.View
}

// HostEvents reports what happens on a host and has no command: changed rules,
// warnings, and what the peer did while it had no quorum. It belongs to one
// goroutine.
type HostEvents struct {
	name     string
	facts    func() hostFacts
	warnings func() []api.Warning
	report   func(eventring.Report)

	open     fencing.Token // of the leadership under which the PXE service was open at the last look
	closed   []closing
	told     fencing.Token // of the newest closing that was told
	drift    int
	silent   time.Time // since when no leader is known; zero while one is
	raised   map[string]api.Warning
	surveyed time.Time
}

// closing is a PXE service that was closed here. The peer reports it once there is a leader,
// unless the log has it.
type closing struct {
	token fencing.Token
	at    time.Time
	why   string
}

// Events returns the events of this peer's host, which report takes.
func (s *Self) Events(report func(eventring.Report)) *HostEvents {
	return &HostEvents{
		name: s.Members.Self.Name, facts: s.hostFacts, report: report, raised: make(map[string]api.Warning),
		warnings: func() []api.Warning { return s.hostWarnings(s.Members.Log.View()) },
	}
}

func (s *Self) hostFacts() hostFacts {
	_, led := s.Members.Log.Leader()
	f := hostFacts{now: s.Wall(), led: led && !s.Session.ID().IsZero(), view: s.Members.Log.View()}
	if s.Door.Guard != nil {
		f.guard = s.Door.Guard.Status()
		lists := s.Door.listState()
		f.drift, f.drifted = lists.Drift, lists.Drifted
	}
	return f
}

// Run reports until ctx ends.
func (h *HostEvents) Run(ctx context.Context) {
	for range pace.After(ctx, hostLook) {
		f := h.facts()
		h.reportChanges(f)
		if f.now.Sub(h.surveyed).Abs() >= hostSurvey {
			h.surveyed = f.now
			h.survey(f.now, h.warnings())
		}
	}
}

// reportChanges compares the host with what it was at the last look.
func (h *HostEvents) reportChanges(f hostFacts) {
	if !f.guard.Open && !h.open.IsZero() {
		h.closed = append(h.closed[max(0, len(h.closed)-maxClosings+1):], closing{h.open, f.guard.Since, f.guard.Why})
	}
	if g := f.guard; g.Open && h.open.IsZero() {
		// A closing that lasted for a moment is forgotten, and one that was told is over. The first opening of a
		// leadership is in the log.
		h.closed = slices.DeleteFunc(h.closed, func(c closing) bool { return c.token == g.Token })
		if h.told == g.Token && !g.Token.IsZero() {
			h.told = 0
			h.report(eventring.Report{
				Topic: eventring.TopicPXE, Action: "opened-again", Millis: g.Since.UnixMilli(),
				Fields: map[string]string{"token": g.Token.String()},
				Text:   fmt.Sprintf("%s opened its PXE service again.", h.name),
			})
		}
	}
	h.open = 0
	if f.guard.Open {
		h.open = f.guard.Token
	}
	if f.drift > h.drift {
		h.report(eventring.Report{
			Topic: eventring.TopicFilter, Action: "drifted", Millis: f.drifted.UnixMilli(),
			Text: fmt.Sprintf("Another program changed the rules of the PXE filter on %s; they were rebuilt, closed.", h.name),
		})
	}
	h.drift = f.drift
	switch {
	case !f.led && h.silent.IsZero():
		h.silent = f.now
	case f.led && !h.silent.IsZero():
		if took := f.now.Sub(h.silent).Round(time.Second); took >= silenceTold {
			h.report(eventring.Report{
				Topic: eventring.TopicLeadership, Action: "contact-lost", Millis: h.silent.UnixMilli(),
				Fields: map[string]string{"for": took.String()},
				Text:   fmt.Sprintf("%s heard of no leader for %v, from %s on.", h.name, took, api.TimeText(h.silent)),
			})
		}
		h.silent = time.Time{}
	}
	if f.led {
		h.tellClosings(f)
	}
}

// tellClosings tells of the PXE services that were closed here without an entry.
func (h *HostEvents) tellClosings(f hostFacts) {
	h.closed = slices.DeleteFunc(h.closed, func(c closing) bool {
		if f.view.PassDoor().OpenBy == c.token && f.now.Sub(c.at) < silenceTold {
			return false // its entry may be under way
		}
		if !closedInLog(f.view, c.token) {
			h.told = c.token
			h.report(eventring.Report{
				Topic: eventring.TopicPXE, Action: "closed-alone", Millis: c.at.UnixMilli(),
				Fields: map[string]string{"token": c.token.String(), "reason": c.why},
				Text:   fmt.Sprintf("%s closed its PXE service by itself at %s: %s.", h.name, api.TimeText(c.at), c.why),
			})
		}
		return true
	})
}

// closedInLog reports whether an event tells that a leadership closed its PXE service.
func closedInLog(v fsm.View, token fencing.Token) bool {
	for stored := range v.Events().Newest() {
		if stored.Topic() != eventring.TopicPXE {
			continue
		}
		if e := stored.Decode(); e.Fields["token"] == token.String() && e.Action != eventring.ActionLapsed {
			return e.Action == eventring.ActionClosed
		}
	}
	return false
}

// survey tells which warnings of this host are new, and which are over.
func (h *HostEvents) survey(now time.Time, warnings []api.Warning) {
	present := make(map[string]api.Warning, len(warnings))
	for _, w := range warnings {
		present[w.Code] = w
		if _, known := h.raised[w.Code]; !known {
			h.report(eventring.Report{
				Topic: eventring.TopicWarning, Action: "raised", Millis: now.UnixMilli(),
				Fields: map[string]string{"code": w.Code, "remedy": w.Remedy},
				Text:   fmt.Sprintf("%s warns (%s): %s.", h.name, w.Code, w.Text),
			})
		}
	}
	for code := range h.raised {
		if _, still := present[code]; !still {
			h.report(eventring.Report{
				Topic: eventring.TopicWarning, Action: "cleared", Millis: now.UnixMilli(), Fields: map[string]string{"code": code},
				Text: fmt.Sprintf("%s does not warn of %s any more.", h.name, code),
			})
		}
	}
	h.raised = present
}
