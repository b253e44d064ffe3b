package waits

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/firewall/recorder"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/relays"
)

// machines lists what introspections wait for, Ironic's own among them.
func (j judge) machines(l *list) {
	judged := 0
	for rec := range j.View.OverdueAt(entry.MaxTime) { // by then each that is under way is
		judged++
		w := j.introspection(rec, judged <= maxJudged)
		l.add(w, group(w))
	}
	for _, i := range j.View.InspectedNodes() {
		judged++
		w := j.byIronic(i.Node, judged <= maxJudged)
		l.add(w, group(w))
	}
	if j.View.QueueLength() == 0 {
		return
	}
	for r := range j.View.Queue() {
		if rec, _ := j.View.Record(r.Node); !rec.State.Active() {
			w := j.queued(r.Node)
			l.add(w, group(w))
		}
	}
}

// group is by what machines are counted together: what was found, or what they wait for.
func group(w api.Wait) string {
	if w.Finding != "" {
		return w.Kind + "\x00" + w.Finding
	}
	return w.Kind + "\x00\x00" + w.For
}

// machine lists what one node waits for.
func (j judge) machine(l *list, node string) {
	switch rec, known := j.View.Record(node); {
	case known && rec.State.Active():
		l.add(j.introspection(rec, true), "")
	case len(j.View.QueueOf(node)) > 0:
		l.add(j.queued(node), "")
	}
	if _, does := j.View.Inspected(node); does {
		l.add(j.byIronic(node, true), "")
	}
	for r := range j.View.RelaysOf(node) {
		if r.State == relays.Pending {
			l.add(j.relay(r), "")
		}
	}
}

// introspection is what an introspection that is under way waits for; closely: also what was
// heard of its machine.
func (j judge) introspection(rec introspection.Record, closely bool) (w api.Wait) {
	subject, queue := "node "+rec.Node, j.View.QueueOf(rec.Node)
	switch {
	case rec.State == introspection.NodeWaiting && len(queue) > 0:
		w = j.wait("introspection/queued", subject, rec.Node, fmt.Sprintf("%v, %s", queue[0].Event, j.worker(rec.Node)))
	case rec.State == introspection.NodeWaiting:
		w = j.wait("introspection/waiting", subject, rec.Node, unbootable(j.Seen))
		if closely {
			j.find(&w, rec.Node)
		}
	default:
		w = j.wait("introspection/"+rec.State.String(), subject, rec.Node, j.worker(rec.Node))
	}
	if gap := j.Config.Inspection.RebootThrottle; gap > 0 && rec.State == introspection.NodeStarting {
		w.For += fmt.Sprintf("; machines are switched on %v apart (inspection.reboot_throttle)", gap)
	}
	w.Since = millis(rec.StartedMillis)
	j.limit(&w, rec.Deadline, "")
	if j.Leader == "" {
		return w
	}
	over := rec.Deadline <= j.View.Now()
	if over {
		w.Then = "its time is over: it ends in error once the leader has looked (inspection.clean_up_period) and no worker holds it"
	}
	claim, held := j.View.ClaimOf(rec.Node)
	if !held || j.hears(claim.Peer) {
		return w
	}
	// The session of a peer that is silent may end earlier, and so do its claims. Once the deadline has passed, the
	// introspection ends with the claim.
	session, ok := j.View.Session(claim.Session)
	if ok && (session.Expires < rec.Deadline || over) {
		j.limit(&w, session.Expires, "the session of "+j.name(claim.Peer)+" ends, and another worker takes it over")
	}
	return w
}

// unbootable says that no machine boots at all, "" if one may.
func unbootable(s api.Status) string {
	if !s.PXE.Guarded || len(s.PXE.OpenOn) > 0 {
		return ""
	}
	return "the PXE service is closed on every host"
}

// find says why a machine does not call, as the boot recorder knows.
func (j judge) find(w *api.Wait, node string) {
	account, _ := recorder.AccountOf(j.View, node)
	if len(account.Findings) == 0 {
		return
	}
	first := account.Findings[0]
	w.For = "the machine: " + first.Text
	w.Finding, w.Do = first.Code, cmp.Or(boots.Remedy(first.Code), w.Do)
	if closed := unbootable(j.Seen); closed != "" {
		w.For += "; " + closed
		w.Do = "first, 'trivet firewall show' says what keeps the PXE service closed; then " + w.Do
	}
}

// worker says who has the request that comes first for a node.
func (j judge) worker(node string) string {
	claim, held := j.View.ClaimOf(node)
	if !held {
		if !slices.ContainsFunc(j.View.Sessions(), func(s membership.Session) bool { return !s.NoIronic }) {
			return "no peer reaches Ironic" // as far as the state tells
		}
		return "none has taken it yet"
	}
	session, _ := j.View.SessionOf(claim.Peer)
	text := "peer " + j.name(claim.Peer) + " is at it"
	if r, ok := j.View.QueuedRequest(claim.Request); ok && r.Hook != "" {
		text += ", at step " + r.Hook
	}
	switch {
	case !j.hears(claim.Peer):
		text += ", and is silent"
	case session.NoIronic:
		text += ", and does not reach Ironic"
	}
	return text
}

// queued is what a node waits for whose introspection has ended, or that has none.
func (j judge) queued(node string) api.Wait {
	what := j.worker(node)
	if queue := j.View.QueueOf(node); len(queue) > 0 {
		what = fmt.Sprintf("%v, %s", queue[0].Event, what)
	}
	w := j.wait("introspection/queued", "node "+node, node, what)
	w.Then = noLimit
	return w
}

// byIronic is what a node waits for that Ironic itself inspects.
func (j judge) byIronic(node string, closely bool) api.Wait {
	w := j.wait("introspection/by-ironic", "node "+node, node, unbootable(j.Seen))
	if closely {
		j.find(&w, node)
	}
	return w
}

// relays lists what documents of ramdisks wait for that are handed on.
func (j judge) relays(l *list) {
	for r := range j.View.PendingRelays() {
		w := j.relay(r)
		l.add(w, w.Kind+"\x00"+w.For)
	}
}

func (j judge) relay(r relays.Relay) api.Wait {
	subject := fmt.Sprintf("relay %v", r.Sequence)
	if r.Node != "" {
		subject += " of node " + r.Node
	}
	what := "it was not tried yet"
	switch {
	case !j.leaderReachesIronic():
		what = "the leader does not reach it"
	case r.Open:
		what = "a try is under way, or its answer was lost"
	case r.Doubt && r.Node == "":
		what = "its answer was lost: it may have enrolled the machine, and is asked whether it knows it"
	case r.Absent != 0:
		what = "it waits for no data of this machine now"
	case r.Reason != "":
		what = r.Reason
	}
	w := j.wait("relay/pending", subject, r.Sequence.String(), what)
	w.Since = millis(r.AcceptedMillis)
	j.limit(&w, r.Deadline, "")
	if last := r.Absent.Add(relays.AbsentTimeout); r.Absent != 0 && j.leaderReachesIronic() && last < r.Deadline {
		then := "if Ironic waits for none then either, it has failed: inspect the node again"
		if !r.After.IsZero() {
			then = "if Ironic waits for none then either, it counts as taken: Ironic took the same data before"
		}
		j.limit(&w, last, then)
	}
	return w
}

func (j judge) leaderReachesIronic() bool {
	session, ok := j.View.SessionOf(j.Leader)
	return !ok || !session.NoIronic
}
