package datadir

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// PresenceError refuses a founding because of other peers that run, may run, or
// could go on without it.
type PresenceError struct {
	Message string
	Remedy  string
}

// Error implements error.
func (e *PresenceError) Error() string { return e.Message }

// Judge compares what the other peers' hosts answered with what the operator says
// of them: names are the hosts, or server IDs, that are lost for ever. No peer may
// run. A host that does not answer must be named lost, since a peer that was merely
// cut off would act on the same machines; one that is up and runs no peer need not
// be: its host may join again. To recover is refused while a majority is not lost:
// it goes on by being started.
func (r *Refounding) Judge(asked []cluster.Asked, names []string) error {
	for _, a := range asked {
		if a.Presence == cluster.Running {
			return &PresenceError{
				Message: fmt.Sprintf("peer %v runs: %s", a.FormerMember, a.Detail),
				Remedy:  "stop it there ('systemctl stop trivet') and repeat this; nothing was changed",
			}
		}
	}
	lost, err := r.named(names)
	if err != nil {
		return err
	}
	if err := r.consented(asked, lost); err != nil {
		return err
	}
	if err := r.majority(lost); err != nil {
		return err
	}
	r.Lost, r.judged = lost, true
	return nil
}

// named returns the peers with these names.
func (r *Refounding) named(names []string) (lost []membership.FormerMember, err error) {
	for _, name := range names {
		is := func(m membership.FormerMember) bool { return m.Name == name || m.ID == name }
		if !slices.ContainsFunc(r.Others, is) && !r.wasLost(name) {
			return nil, &PresenceError{
				Message: fmt.Sprintf("--lost %s: no other member is called that", name),
				Remedy:  "the others are: " + orNone(r.Others),
			}
		}
	}
	for _, m := range r.Others {
		if slices.Contains(names, m.Name) || slices.Contains(names, m.ID) {
			lost = append(lost, m)
		}
	}
	return lost, nil
}

// wasLost reports whether a name is that of a peer that was lost or removed before: a
// founding that had switched already is repeated with the names that it was given.
func (r *Refounding) wasLost(name string) bool {
	return name != r.Self.Name &&
		slices.ContainsFunc(r.state.View().RemovedPeers(),
			func(p membership.RemovedPeer) bool { return p.Name == name || p.ID == name })
}

// consented demands that who does not answer is named lost.
func (r *Refounding) consented(asked []cluster.Asked, lost []membership.FormerMember) error {
	var silent, names []string
	for _, a := range asked {
		named := slices.ContainsFunc(lost, func(m membership.FormerMember) bool { return m.ID == a.ID })
		if a.Presence == cluster.Silent && !named {
			silent = append(silent, fmt.Sprintf("%v: %s", a.FormerMember, a.Detail))
		}
		if a.Presence == cluster.Silent || named {
			names = append(names, a.Name)
		}
	}
	if len(silent) == 0 {
		return nil
	}
	return &PresenceError{
		Message: fmt.Sprintf("%d of %d other peers do not answer, and may run: %s", len(silent), len(r.Others),
			strings.Join(silent, "; ")),
		Remedy: "if they only cannot be reached: stop them and let this host reach them. If they are lost for ever and will never be started again: --lost " +
			strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ","),
	}
}

// majority refuses to recover what goes on by itself. Where this host is the only
// member, as after a recovery, it is no refusal: recover may be repeated.
func (r *Refounding) majority(lost []membership.FormerMember) error {
	// Of which of these the others go on by, this host cannot know.
	for _, voters := range r.voters {
		left := slices.DeleteFunc(slices.Clone(voters), func(id string) bool {
			return slices.ContainsFunc(lost, func(l membership.FormerMember) bool { return l.ID == id })
		})
		need := len(voters)/2 + 1
		if len(left) < need {
			continue
		}
		return &PresenceError{
			Message: fmt.Sprintf(
				"%d of %d voters are not named lost, and a majority of them is %d: they go on without a recovery", len(left),
				len(voters), need),
			Remedy: "start them ('systemctl start trivet'). If more are lost for ever, name all of them: --lost NAME,NAME; the others are: " +
				orNone(r.Others),
		}
	}
	return nil
}

func orNone(members []membership.FormerMember) string {
	if len(members) == 0 {
		return "none"
	}
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.String()
	}
	return strings.Join(names, ", ")
}
