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

// named returns the peers with these names or server IDs. A name that hosts at several
// addresses have names none of them: the one that is not lost may run.
func (r *Refounding) named(names []string) (lost []membership.FormerMember, err error) {
	meant := make(map[string]bool) // by server ID
	for _, name := range names {
		found := r.called(name)
		if len(found) == 0 && !r.wasLost(name) {
			return nil, &PresenceError{
				Message: fmt.Sprintf("--lost %s: no other member is called that", name),
				Remedy:  "the others are: " + r.listed(),
			}
		}
		if severalHosts(found) {
			return nil, &PresenceError{
				Message: fmt.Sprintf("--lost %s: several hosts are called that", name),
				Remedy:  "name those that are lost by their IDs; the others are: " + r.listed(),
			}
		}
		for _, m := range found {
			meant[m.ID] = true
		}
	}
	for _, m := range r.Others {
		if meant[m.ID] {
			lost = append(lost, m)
		}
	}
	return lost, nil
}

// called returns the other peer with this server ID, or those with this name.
func (r *Refounding) called(name string) (found []membership.FormerMember) {
	for _, m := range r.Others {
		if m.ID == name {
			return []membership.FormerMember{m}
		}
		if m.Name == name {
			found = append(found, m)
		}
	}
	return found
}

// severalHosts says that peers of one name are not of one host. At one address there is
// one host, whose peers of two histories, or of before and after a join, are lost with it.
func severalHosts(peers []membership.FormerMember) bool {
	return slices.ContainsFunc(peers, func(m membership.FormerMember) bool {
		return !slices.Equal(m.Addresses(), peers[0].Addresses())
	})
}

// nameOf returns what --lost takes for a peer: its name, or the ID where another host has the name.
func (r *Refounding) nameOf(m membership.FormerMember) string {
	if severalHosts(r.called(m.Name)) {
		return m.ID
	}
	return m.Name
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
			names = append(names, r.nameOf(a.FormerMember))
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
				r.listed(),
		}
	}
	return nil
}

// listed names the other peers, each as --lost takes it.
func (r *Refounding) listed() string {
	if len(r.Others) == 0 {
		return "none"
	}
	names := make([]string, len(r.Others))
	for i, m := range r.Others {
		names[i] = m.String()
		if name := r.nameOf(m); name != m.Name {
			names[i] += ", ID " + name
		}
	}
	return strings.Join(names, "; ")
}
