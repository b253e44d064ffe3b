package cluster

import (
	"errors"
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// takenError is a refusal of a joiner whose name or address a living member
// has, with what the joiner's operator can do about it.
type takenError struct {
	error // the log's refusal
	what  string
	hint  string
}

// Error implements error.
func (e *takenError) Error() string { return e.what }

// Unwrap gives the log's refusal.
func (e *takenError) Unwrap() error { return e.error }

// explainTaken says which member stands in the way of a joiner that the log
// refused, and what to do: the log's own words do not know whether it is the
// name, the address or both. Other errors stay as they are.
func explainTaken(err error, req JoinRequest, view fsm.View) error {
	var refused *fsm.Error
	if !errors.As(err, &refused) || refused.Code != fsm.Conflict {
		return err
	}
	members := view.Members()
	i := slices.IndexFunc(members, func(m membership.Member) bool {
		_, lives := view.SessionOf(m.ID)
		return lives && (m.Name == req.Name || m.Address == req.Address)
	})
	if i < 0 {
		return err // it ended meanwhile; joining again will do
	}
	m := members[i]
	const again = "a peer that was stopped or wiped less than %v ago counts as living: 'trivet join --wait 30s' waits for that"
	out := &takenError{error: err}
	switch {
	case m.Address != req.Address:
		out.what = fmt.Sprintf("the name %s is taken: peer %s at %s lives", req.Name, m.Name, m.Address)
		out.hint = fmt.Sprintf(
			"give this host a name of its own: 'trivet join --name NAME'. If it is to take the place of %s, stop that one first; "+
				again,
			m.Name, membership.SessionTTL)
	case m.Name != req.Name:
		out.what = fmt.Sprintf("the address %s is taken: peer %s lives there", req.Address, m.Name)
		out.hint = fmt.Sprintf(
			"if this is another host than %s, write its own address: 'trivet join --cluster-advertise HOST:PORT'. If it is the same host, run 'trivet leave' there first; "+
				again,
			m.Name, membership.SessionTTL)
	default:
		out.what = fmt.Sprintf("peer %s at %s lives: the name and the address are taken", m.Name, m.Address)
		out.hint = fmt.Sprintf(
			"if a peer runs on this host already, with another --data-dir, run 'trivet leave' there first; "+again,
			membership.SessionTTL)
	}
	return out
}
