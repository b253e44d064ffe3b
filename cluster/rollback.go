package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// RolledBackError says that the disk of this peer lacks entries that the peer had
// applied, and so acknowledged, before: an older copy took its place.
// Such a voter could elect a leader that lacks acknowledged writes.
type RolledBackError struct {
	Stored  fencing.Token // of the newest entry that was on the disk when this process began
	Applied fencing.Token // up to which an earlier process had applied the log
}

// Error implements error.
func (e *RolledBackError) Error() string {
	return fmt.Sprintf(
		"the disk of this peer was rolled back: its log ended at token %v when the process began, and the peer had reported token %v as applied before",
		e.Stored, e.Applied)
}

// rolledBack compares what is stored with what was applied.
func rolledBack(stored, applied fencing.Token) error {
	if applied <= stored {
		return nil
	}
	return &RolledBackError{Stored: stored, Applied: applied}
}

// Own is what a peer knows of its own disk.
type Own struct {
	Stored fencing.Token // of the newest entry on the disk when this process began
	// RolledBack is called when a member knows that this peer's disk held more
	// before. It must not block.
	RolledBack func(error)
}

// witnesses are the other members as far as they know how far this peer had come.
type witnesses struct {
	own      Own
	inquiry  *inquiry      // what each said
	examined chan struct{} // closed when all were asked once
	err      error         // of that; valid then
}

// examine asks all other members at once. It ends within inquiryLimit. No answer
// is no objection: a member that did not answer is asked again when it speaks to
// this peer, and the first session tells the same; see Session.
func (a *Access) examine() {
	defer close(a.witnesses.examined)
	members := a.configured()
	answers := make(chan error, len(members))
	for _, m := range members { // at most membership.MaxMembers
		go func() { answers <- a.witness(m, false) }()
	}
	for range members {
		a.witnesses.err = errors.Join(a.witnesses.err, <-answers) // each ends within inquiryLimit
	}
}

// witness asks one member how far it knows this peer to have come, until it has answered. One
// that speaks is asked at once, though the question at the start failed, when the network may
// not have been there, and at most once in failureFor.
func (a *Access) witness(m membership.Member, speaks bool) error {
	known := a.witnesses.inquiry.verdict(m.ID)
	known.turn <- struct{}{} // an inquiry takes inquiryLimit at most
	defer func() { <-known.turn }()
	if known.final || !known.at.IsZero() && time.Since(known.at) < failureFor {
		return known.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), inquiryLimit)
	defer cancel()
	r, err := a.inquiry.rights(ctx, m, a.end.Credentials().Identity.Peer)
	known.final = err == nil
	if speaks {
		known.at = time.Now()
	}
	if known.err = rolledBack(max(a.witnesses.own.Stored, a.applied()), r.Applied); known.err != nil {
		a.witnesses.own.RolledBack(known.err)
	}
	return known.err
}

// applied is up to where this process has applied the log. What a member answers may
// be what this process itself has reported since it began, so it is read after the
// answer: no report is above it.
func (a *Access) applied() fencing.Token {
	v, _ := a.view()
	return fencing.At(v.Base(), v.Index())
}

// configured are the other members that raft's configuration names, which counts
// entries that are not applied yet; those that the join named while it names none.
func (a *Access) configured() (out []membership.Member) {
	self := a.end.Credentials().Identity.Peer
	for _, srv := range (*a.state.Load()).Servers() {
		if m, ok := memberAt(srv.Address); ok && m.ID != self {
			out = append(out, m)
		}
	}
	if out == nil {
		return a.joined
	}
	return out
}

// RolledBack returns a *RolledBackError if another member knows that this peer's
// disk held more before. It waits for Follow and then for the members' answers,
// inquiryLimit each at most.
func (a *Access) RolledBack() error {
	if err := a.awaitState(); err != nil {
		return err
	}
	<-a.witnesses.examined // examine is bounded
	return a.witnesses.err
}

// vouched returns why this peer must not hear a request of a peer: one of the
// members, or that peer, knows that this peer's disk was rolled back.
func (a *Access) vouched(peer string) error {
	if err := a.RolledBack(); err != nil || a.current.holds() {
		return err
	}
	members := a.configured()
	i := slices.IndexFunc(members, func(m membership.Member) bool { return m.ID == peer })
	if i < 0 {
		return nil
	}
	return a.witness(members[i], true)
}
