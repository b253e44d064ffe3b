package fsm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// modelFailover is failover again, naively.
type modelFailover struct {
	nodes  map[[2]string]kubestate.Node // cluster, UID
	votes  []kubestate.Ballot
	all    []*kubestate.Remediation // in the order of their begin, with every step
	pauses map[string]kubestate.Pause
	holds  map[string]kubestate.Hold
}

func newModelFailover() modelFailover {
	return modelFailover{nodes: map[[2]string]kubestate.Node{}, pauses: map[string]kubestate.Pause{},
		holds: map[string]kubestate.Hold{}}
}

// expireFailover ends what is over.
func (m *model) expireFailover() {
	f := &m.failing
	maps.DeleteFunc(f.pauses, func(_ string, p kubestate.Pause) bool { return p.Until != 0 && p.Until <= m.now })
	maps.DeleteFunc(f.holds, func(_ string, h kubestate.Hold) bool { return h.Until <= m.now })
	f.all = slices.DeleteFunc(f.all, func(r *kubestate.Remediation) bool { return r.State.Ended() && r.Expires <= m.now })
}

func (m *model) fails(c Command) Code {
	f := &m.failing
	switch c := c.(type) {
	case kubestate.VoteNodes:
		return m.votes(c)
	case kubestate.PauseFailover:
		old, paused := f.pauses[c.Cluster]
		if sooner := c.For > 0 && (old.Until == 0 || after(m.now, c.For) < old.Until); c.Paused && paused && sooner &&
			m.version() > 2 {
			return Conflict
		}
		delete(f.pauses, c.Cluster)
		if c.Paused {
			f.pauses[c.Cluster] = kubestate.Pause{Cluster: c.Cluster, By: c.By, Reason: c.Reason, Since: m.now,
				Until: after(m.now, c.For), Millis: c.Millis}
		}
		return OK
	case kubestate.ReleaseRemediation:
		r := m.remediation(c.Intent)
		if r == nil {
			return NotFound
		}
		to := c.To
		if c.Ended {
			to = r.State
		}
		if c.Ended != r.State.Ended() || !c.Ended && r.State != kubestate.RemStuck {
			return Conflict
		}
		m.stepTo(r, kubestate.Step{State: to, Millis: c.Millis, Peer: c.By, Operator: true, Reason: c.Reason})
		return OK
	}
	if m.header.Token == 0 {
		return Refused
	}
	return m.failsOver(c)
}

// failsOver executes what only the leader may.
func (m *model) failsOver(c Command) Code {
	f := &m.failing
	switch c := c.(type) {
	case kubestate.PutNodes:
		m.putKubeNodes(c)
	case kubestate.HoldFailover:
		h, ok := f.holds[c.Cluster]
		if !ok {
			h = kubestate.Hold{Cluster: c.Cluster, Since: m.now}
		}
		h.Until, h.Reason = max(h.Until, m.now.Add(c.For)), c.Reason
		f.holds[c.Cluster] = h
	case kubestate.BeginRemediation:
		for _, r := range f.all {
			if !r.State.Ended() && r.Cluster == c.Cluster && (r.UID == c.UID || r.Node == c.Node) {
				return Conflict
			}
		}
		for _, p := range f.pauses {
			if p.Cluster == "" || p.Cluster == c.Cluster {
				return Refused
			}
		}
		r := &kubestate.Remediation{Intent: m.token(), Cluster: c.Cluster, Node: c.Node, UID: c.UID, BootID: c.BootID,
			SystemUUID: c.SystemUUID, Began: m.now}
		f.all = append(f.all, r)
		m.stepTo(r, kubestate.Step{State: kubestate.RemIntent, Millis: c.Millis, Peer: c.Peer, Reason: c.Reason})
	case kubestate.StepRemediation:
		r := m.remediation(c.Intent)
		switch {
		case r == nil:
			return NotFound
		case r.State != c.From:
			return Conflict
		case !modelMay(r, c.To):
			return IllegalTransition
		}
		m.stepTo(r, kubestate.Step{State: c.To, Millis: c.Millis, Peer: c.Peer, Device: c.Device, Reason: c.Reason})
	}
	return OK
}

func after[D ~int64](now Time, d D) Time {
	if d == 0 {
		return 0
	}
	return now + Time(d)
}

func (m *model) putKubeNodes(c kubestate.PutNodes) {
	for _, uid := range c.Remove {
		delete(m.failing.nodes, [2]string{c.Cluster, uid})
		m.failing.votes = slices.DeleteFunc(m.failing.votes,
			func(b kubestate.Ballot) bool { return b.Cluster == c.Cluster && b.UID == uid })
	}
	for _, n := range c.Nodes {
		n.Cluster, n.Changed, n.ChangedMillis = c.Cluster, m.now, c.Millis
		if old, ok := m.failing.nodes[[2]string{c.Cluster, n.UID}]; ok && old.Ready == n.Ready && old.BootID == n.BootID {
			n.Changed, n.ChangedMillis = old.Changed, old.ChangedMillis
		}
		m.failing.nodes[[2]string{c.Cluster, n.UID}] = n
	}
}

func (m *model) votes(c kubestate.VoteNodes) Code {
	if m.memberSession(c.Session) == nil {
		return SessionEnded
	}
	if m.header.Session != 0 && m.header.Session != c.Session {
		return Refused
	}
	of := func(uid string) func(kubestate.Ballot) bool {
		return func(b kubestate.Ballot) bool { return b.Cluster == c.Cluster && b.UID == uid && b.Session == c.Session }
	}
	f := &m.failing
	for _, uid := range c.Withdraw {
		f.votes = slices.DeleteFunc(f.votes, of(uid))
	}
	for _, v := range c.Votes {
		if _, known := f.nodes[[2]string{c.Cluster, v.UID}]; !known {
			continue
		}
		if i := slices.IndexFunc(f.votes, of(v.UID)); i >= 0 {
			if f.votes[i].Silent == v.Silent {
				continue
			}
			f.votes = slices.Delete(f.votes, i, i+1)
		}
		f.votes = append(f.votes,
			kubestate.Ballot{Cluster: c.Cluster, UID: v.UID, Session: c.Session, Silent: v.Silent, Since: m.now,
				Millis: c.Millis})
	}
	return OK
}

func (m *model) remediation(intent fencing.Token) *kubestate.Remediation {
	for _, r := range m.failing.all {
		if r.Intent == intent {
			return r
		}
	}
	return nil
}

// wantRemediations is the transition table again, in another shape: x may, o may
// once the machine was off, a may while it was not, d needs an announced power-off.
const wantRemediations = `
            intent cordoned fencing off tainted deleted detached recovered cancelled stuck
intent      -      x        -       -   -       -       -        -         a         x
cordoned    -      -        x       -   -       -       -        -         a         x
fencing     -      -        x       d   -       -       -        o         a         x
off         -      -        x       -   x       -       -        x         -         x
tainted     -      -        x       -   -       x       -        x         -         x
deleted     -      -        x       -   -       -       x        x         -         x
detached    -      -        x       -   -       -       -        x         -         x
recovered   -      -        -       -   -       -       -        x         -         -
cancelled   -      -        -       -   -       -       -        -         x         -
stuck       -      -        x       -   -       -       -        x         a         x`

// remediationCell returns the cell for two states.
func remediationCell(from, to kubestate.State) string {
	lines := strings.Split(strings.TrimSpace(wantRemediations), "\n")
	column := slices.Index(strings.Fields(lines[0]), to.String())
	for _, line := range lines[1:] {
		if cells := strings.Fields(line); cells[0] == from.String() {
			return cells[column+1]
		}
	}
	return ""
}

func modelMay(r *kubestate.Remediation, to kubestate.State) bool {
	wasOff := slices.ContainsFunc(r.Steps, func(s kubestate.Step) bool { return s.State == kubestate.RemOff })
	switch remediationCell(r.State, to) {
	case "x":
		return true
	case "o":
		return wasOff
	case "a":
		return !wasOff
	case "d":
		return slices.ContainsFunc(r.Steps, func(s kubestate.Step) bool { return s.Device != "" })
	}
	return false
}

func (m *model) stepTo(r *kubestate.Remediation, s kubestate.Step) {
	s.Token, s.At = m.token(), m.now
	if r.State != s.State {
		r.State, r.Since = s.State, m.now
	}
	r.Steps = append(r.Steps, s)
	if s.State.Ended() && r.Expires == 0 {
		r.Expires = m.now.Add(kubestate.Keep)
	}
}

// keptSteps are those of all steps that are not forgotten.
func keptSteps(steps []kubestate.Step) []kubestate.Step {
	if len(steps) <= kubestate.MaxSteps {
		return steps
	}
	return slices.Concat(steps[:16], steps[len(steps)-48:])
}

func (m *model) failoverText() string {
	var b strings.Builder
	f := m.failing
	for _, key := range slices.SortedFunc(maps.Keys(f.nodes),
		func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		silent, answers := 0, 0
		for _, v := range f.votes {
			switch {
			case v.Cluster != key[0] || v.UID != key[1] || m.observes(v.Session):
			case v.Silent:
				silent++
			default:
				answers++
			}
		}
		fmt.Fprintf(&b, "kube node %+v, votes %d %d of %d\n", f.nodes[key], silent, answers, m.voters())
	}
	votes := slices.SortedFunc(slices.Values(f.votes), func(a, b kubestate.Ballot) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.UID, b.UID))
	})
	for _, v := range votes {
		fmt.Fprintf(&b, "vote %+v\n", v)
	}
	for _, r := range f.all {
		kept := *r
		kept.Steps = keptSteps(r.Steps)
		for _, s := range r.Steps {
			kept.WasOff = kept.WasOff || s.State == kubestate.RemOff
			if s.Device != "" {
				kept.Attempts++
				kept.Device = s.Device
			}
		}
		fmt.Fprintf(&b, "remediation %+v, open %v\n", kept,
			r.State != kubestate.RemRecovered && r.State != kubestate.RemCancelled)
	}
	for _, cluster := range slices.Sorted(maps.Keys(f.pauses)) {
		fmt.Fprintf(&b, "pause %+v\n", f.pauses[cluster])
	}
	for _, cluster := range slices.Sorted(maps.Keys(f.holds)) {
		fmt.Fprintf(&b, "hold %+v\n", f.holds[cluster])
	}
	return b.String()
}

func viewFailoverText(v View) string {
	var b strings.Builder
	for _, cluster := range v.KubeClusters() {
		for _, n := range v.KubeNodes(cluster) {
			silent, answers, voters := v.KubeVotes(cluster, n.UID)
			fmt.Fprintf(&b, "kube node %+v, votes %d %d of %d\n", n, silent, answers, voters)
		}
	}
	for _, s := range v.Sessions() {
		for _, cluster := range v.KubeClusters() {
			for _, ballot := range v.KubeVotesOf(s.ID, cluster) {
				fmt.Fprintf(&b, "vote %+v\n", ballot)
			}
		}
	}
	open := v.Remediations()
	for _, r := range slices.Backward(v.RemediationHistory(0)) {
		own, found := v.OpenRemediation(r.Cluster, r.UID)
		listed := slices.ContainsFunc(open, func(o kubestate.Remediation) bool { return o.Intent == r.Intent })
		fmt.Fprintf(&b, "remediation %+v, open %v\n", r, found && own.Intent == r.Intent && listed)
	}
	for _, p := range v.FailoverPauses() {
		fmt.Fprintf(&b, "pause %+v\n", p)
	}
	for _, cluster := range []string{"k", "l"} {
		if h, held := v.FailoverHold(cluster); held {
			fmt.Fprintf(&b, "hold %+v\n", h)
		}
	}
	return b.String()
}

// observes reports whether a session is that of a peer without a vote.
func (m *model) observes(session fencing.Token) bool {
	s := m.sessions[session]
	return s != nil && m.flags.observer[s.peer]
}

func (m *model) voters() (n int) {
	for id := range m.members {
		if !m.flags.observer[id] {
			n++
		}
	}
	return n
}
