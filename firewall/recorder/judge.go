package recorder

import (
	"net/netip"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// How often machines are judged: the work of a second is bounded, however many are awaited.
const (
	censusEvery = 10 * time.Second // the awaited machines are listed
	judgeAfter  = 5 * time.Second  // after a judgement, where something new was heard
	judgeAgain  = time.Minute      // after a judgement, where nothing was
	maxJudged   = 500              // judgements in a second
	// refreshAfter is how long the text of a finding stays while nothing is heard of a machine.
	refreshAfter = 10 * time.Minute
)

// watch is what the leader knows of when to judge which machine.
type watch struct {
	nodes   map[string]*watched
	counted time.Time // the newest census
}

// watched is a machine that is to be judged.
type watched struct {
	begun fencing.Token // of the inspection that awaits it
	since time.Time     // from when on this leader awaits it
	last  time.Time     // when it was judged
	next  time.Time     // when it is again
}

// judgeNodes says of which nodes the findings have changed. fresh is what is to be committed together
// with them. A recorder that hears nothing says nothing: silence would be its own.
func (r *Recorder) judgeNodes(v fsm.View, fresh map[string]*boots.Track, now time.Time) (all []boots.Judged) {
	if r.err != nil || v.Admits(boots.Note{}) != nil {
		return nil
	}
	r.watch.census(v, now)
	for node := range fresh {
		if w := r.watch.nodes[node]; w != nil && w.last.Add(judgeAfter).Before(w.next) {
			w.next = w.last.Add(judgeAfter)
		}
	}
	strangers := r.strangers.list()
	judged := 0
	for node, w := range r.watch.nodes { // in any order: what has no room is next
		if now.Before(w.next) {
			continue
		}
		if judged++; judged > maxJudged || len(all) == boots.MaxJudged {
			break
		}
		if j, changed := r.judgeNode(v, node, w, fresh[node], strangers, now); changed {
			all = append(all, j)
		}
	}
	return all
}

// census begins to watch the machines that are awaited, and those that have called and of which
// something is found still.
func (w *watch) census(v fsm.View, now time.Time) {
	if now.Sub(w.counted) < censusEvery {
		return
	}
	w.counted = now
	begin := func(node string) {
		if w.nodes[node] == nil {
			w.nodes[node] = &watched{since: now, next: now}
		}
	}
	for _, node := range v.AllowedMACs() {
		begin(node)
	}
	for _, i := range v.InspectedNodes() {
		begin(i.Node)
	}
	for track := range v.BootTracks() {
		if len(track.Findings) > 0 && called(v, track) {
			begin(track.Node)
		}
	}
}

// judgeNode judges one machine, and says what is to be committed of it.
func (r *Recorder) judgeNode(v fsm.View, node string, w *watched, fresh *boots.Track, strangers []Stranger,
	now time.Time) (j boots.Judged, changed bool) {
	track, _ := v.BootTrack(node)
	awaits := awaitedOf(v, node)
	if len(awaits.macs) == 0 || awaits.begun < track.Begun || called(v, track) && track.Begun == awaits.begun {
		if w.next = now.Add(judgeAgain); len(awaits.macs) == 0 {
			delete(r.watch.nodes, node)
		}
		return boots.Judged{Node: node, Begun: track.Begun}, len(track.Findings) > 0 && called(v, track)
	}
	if w.begun != awaits.begun {
		w.begun, w.since = awaits.begun, now // of another introspection
	}
	if track.Begun != awaits.begun {
		track = boots.Track{Node: node, Begun: awaits.begun}
	}
	stored := track
	if fresh != nil && fresh.Begun == track.Begun {
		for _, step := range fresh.Steps {
			track.Add(step)
		}
	}
	found, next := Machine{MACs: awaits.macs, Since: w.since, Now: now, Track: track, Strangers: strangers,
		Denied: r.denied, Hosts: r.lead.hosts}.judgeBoot()
	if w.last, w.next = now, now.Add(judgeAgain); !next.IsZero() && next.Before(w.next) {
		w.next = next
	}
	found = keepFindings(stored, track, found, v.Now())
	same := slices.Equal(found, stored.Findings)
	stored.Findings = found
	untold, wait := stored.Untold(v.Now())
	if soon := now.Add(wait + noteEvery); untold && wait > 0 && soon.Before(w.next) {
		w.next = soon
	}
	return boots.Judged{Node: node, Begun: awaits.begun, Findings: found}, !same || untold && wait == 0
}

// denied says why what comes from a machine that is let in, through a relay, is kept out.
func (r *Recorder) denied(_, relay string) string {
	at, err := netip.ParseAddr(relay)
	switch {
	case err != nil:
		return ""
	case at.Is6():
		return "what a DHCP relay passes on over IPv6 is dropped"
	}
	return r.RelaysDropped
}

// keepFindings keeps what was found of a machine of which still nothing is heard: since when that is so
// another leader may know, which listened for longer and heard other strangers.
func keepFindings(stored, track boots.Track, found []entry.Finding, now entry.Time) []entry.Finding {
	if len(track.Steps) > 0 || len(stored.Findings) == 0 {
		return found
	}
	all := slices.Clone(stored.Findings)
	for _, f := range found {
		i := slices.IndexFunc(all, func(o entry.Finding) bool { return o.Code == f.Code })
		switch {
		case i < 0:
			all = append(all, f)
		case f.Code != codeSilent && now.Sub(stored.Noted()) >= refreshAfter:
			all[i] = f
		}
	}
	return all
}
