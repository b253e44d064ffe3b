package cluster

import (
	"slices"
	"time"

	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/fsm/eventring"
)

// What a lane of the timeline shows at a moment, from the weakest to the strongest.
const (
	laneNothing   = '.'
	laneLeads     = '='
	laneLate      = '~' // the peer was lost: by the end of this its kernel had closed the PXE service
	lanePXE       = '#'
	laneConnected = '+'
	laneLost      = 'x'
	laneUnknown   = '?' // no leader was heard of since, or no peer answers
)

// laneLegend explains them.
const laneLegend = "= leads # PXE open ~ closed by then x lost + there ? unknown"

// track is one kind of bar: which actions of a kind of event begin it and which end it.
type track struct {
	kind       eventring.Topic
	begin, end []string
}

// bar is a time during which something was so.
type bar struct {
	from time.Time
	sure time.Time // it was seen until then
	to   time.Time // it was over then at the latest
}

// endsSession reports whether an event is the end of a peer's session.
func endsSession(e client.Event, peer string) bool {
	return e.Kind == eventring.TopicMember.String() && e.Peer == peer &&
		slices.Contains([]string{"lost", "stopped", "removed"}, e.Action)
}

// bars are those of one peer, from events in the order of the log, as of now. A peer leads until another
// does, or until it was lost. Of one that was lost the cluster knows when its time was over at the
// latest: from the next leader on no peer saw it.
func (t track) bars(events []client.Event, peer string, now time.Time) (out []bar) {
	var open *bar
	var lost time.Time
	end := func(at time.Time, late bool) {
		open.to, open.sure = at, at
		if late && !lost.IsZero() {
			open.sure = lost
		}
		out, open, lost = append(out, *open), nil, time.Time{}
	}
	for _, e := range events {
		ofLeader := e.Kind == eventring.TopicLeadership.String() && e.Action == "acquired"
		switch own := e.Kind == t.kind.String() && e.Peer == peer; {
		case own && slices.Contains(t.begin, e.Action):
			if open == nil {
				open = &bar{from: servers.Moment(e.Time)}
			}
		case own && slices.Contains(t.end, e.Action):
			if open == nil && len(out) == 0 { // it began before the first event that is known
				open = new(bar)
			}
			if open != nil {
				end(servers.Moment(e.Time), e.Action == "lapsed")
			}
		case open != nil && t.kind == eventring.TopicLeadership && (ofLeader || endsSession(e, peer)):
			end(servers.Moment(e.Time), false)
		case open != nil && ofLeader && lost.IsZero() && e.Peer != peer:
			lost = servers.Moment(e.Time)
		}
	}
	if open != nil {
		open.sure, open.to = now, now
		out = append(out, *open)
	}
	return out
}

// lane draws the time from one moment to another in so many columns, for a peer. What was since known is not.
func lane(events []client.Event, peer string, from, known, to time.Time, cols int) string {
	out := []rune(repeat(laneNothing, cols))
	at := func(moment time.Time) int {
		if !moment.After(from) {
			return 0
		}
		return min(int(float64(moment.Sub(from))/float64(to.Sub(from))*float64(cols)), cols-1)
	}
	paint := func(begin, end time.Time, r rune) {
		if end.Before(from) || begin.After(to) {
			return
		}
		for i := at(begin); i <= at(end); i++ {
			out[i] = r
		}
	}
	leads := track{eventring.TopicLeadership, []string{"acquired"}, []string{"lost", "ended"}}
	for _, b := range leads.bars(events, peer, to) {
		paint(b.from, b.to, laneLeads)
	}
	pxeOpen := track{eventring.TopicPXE, []string{"opened"}, []string{"closed", "lapsed"}}
	for _, b := range pxeOpen.bars(events, peer, to) {
		if b.to.After(b.sure) {
			paint(b.sure, b.to, laneLate)
		}
		paint(b.from, b.sure, lanePXE)
	}
	for _, e := range events {
		switch moment := servers.Moment(e.Time); {
		case moment.Before(from) || moment.After(to) || e.Peer != peer:
		case endsSession(e, peer):
			out[at(moment)] = laneLost
		case e.Kind == eventring.TopicMember.String() && (e.Action == "connected" || e.Action == "joined"):
			out[at(moment)] = laneConnected
		}
	}
	if known.Before(to) {
		paint(known, to, laneUnknown)
	}
	return string(out)
}

func repeat(r rune, n int) string {
	return string(slices.Repeat([]rune{r}, max(n, 0)))
}
