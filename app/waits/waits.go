// Package waits says who waits for whom: for every state that can last what it waits for, since
// when, until when, and what an operator may do (docs/waits.md). It keeps nothing: all is read
// from the replicated state, the configuration and what the peer hears.
package waits

import (
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
)

const (
	// MaxListed is how many waits are listed; the rest is counted.
	MaxListed = 50
	// maxJudged is how many machines are judged one by one, those whose time is over first. The
	// others are counted by their state alone.
	maxJudged = 200
)

// Sight is what a peer sees, which is all that waits are judged by.
type Sight struct {
	View    fsm.View
	Config  config.Config
	Wall    time.Time
	Leader  string             // server ID; "" while this peer knows none
	Servers []raftstore.Server // of the log's configuration
	Seen    api.Status         // what status says of peers, services and upgrade
	// Idle says why nothing is done about kube nodes, "" if something is.
	Idle string
}

// judge judges one sight.
type judge struct {
	Sight
	kinds map[string]Kind
	// asOf is the wall clock at the view's cluster time, which stands still without a leader.
	asOf time.Time
}

func (s Sight) newJudge() judge {
	j := judge{Sight: s, kinds: make(map[string]Kind), asOf: s.Wall.Add(-time.Duration(s.Seen.StaleMS) * time.Millisecond)}
	for _, k := range Kinds() {
		j.kinds[k.Name] = k
	}
	return j
}

// All lists what lasts now: what is about the cluster one by one, machines by what they wait for.
func (s Sight) All() api.Waiting {
	j, l := s.newJudge(), &list{at: make(map[string]int)}
	j.cluster(l)
	j.members(l)
	j.kube(l)
	j.receivers(l)
	j.relays(l)
	j.machines(l)
	return api.Waiting{Waits: l.all, More: l.more}
}

// Of lists what one node waits for.
func (s Sight) Of(node string) []api.Wait {
	j, l := s.newJudge(), &list{at: make(map[string]int)}
	j.machine(l, node)
	return l.all
}

// list grows to MaxListed.
type list struct {
	all  []api.Wait
	at   map[string]int // by group
	more int
}

// add lists a wait; of a group that is listed it is counted. "" is no group.
func (l *list) add(w api.Wait, group string) {
	if at, listed := l.at[group]; listed {
		l.all[at].Count++
		return
	}
	if len(l.all) == MaxListed {
		l.more++
		return
	}
	if group != "" {
		l.at[group] = len(l.all)
	}
	l.all = append(l.all, w)
}

// wait is a wait of a kind. name is what the subject is called in commands, what says more of
// what is waited for.
func (j judge) wait(kind, subject, name, what string) api.Wait {
	k := j.kinds[kind]
	w := api.Wait{Kind: kind, Subject: subject, Count: 1, For: k.For, Then: k.Then,
		Do: strings.ReplaceAll(k.Do, "SUBJECT", name), Warning: k.Warning}
	if what != "" {
		w.For += ": " + what
	}
	return w
}

// frozen is why a limit in cluster time is not told.
const frozen = "no time runs while no peer leads; what is left of its time begins with the next leader, " +
	"who ends an introspection that is over by the clock"

// limit says until when a wait lasts, in cluster time; then, if it is not "", what happens.
func (j judge) limit(w *api.Wait, at fsm.Time, then string) {
	if j.Leader == "" {
		w.Until, w.Then = "", frozen
		return
	}
	w.Until = j.clock(at)
	if then != "" {
		w.Then = then
	}
}

// clock is the wall clock at a cluster time.
func (j judge) clock(at fsm.Time) string { return api.TimeText(j.asOf.Add(at.Sub(j.View.Now()))) }

// millis is a wall clock of the log, which is 0 where it is not known.
func millis(ms int64) string {
	if ms == 0 {
		return ""
	}
	return api.TimeText(time.UnixMilli(ms))
}

// name is what people call a peer.
func (j judge) name(id string) string {
	if m, ok := j.View.Member(id); ok {
		return m.Name
	}
	return id
}

// hears reports whether a peer is heard.
func (j judge) hears(id string) bool {
	return slices.ContainsFunc(j.Seen.Peers, func(p api.Peer) bool { return p.ID == id && p.Live })
}
