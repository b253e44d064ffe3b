// Package cluster is the verbs about a cluster and its peers: who they are, how they
// stand, who may join, and who leads.
package cluster

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

// Members is 'trivet members'.
func Members(t *term.Terminal, peer term.Peer) *cobra.Command {
	c := term.Verb[[]admin.Member]{
		Use:   "members",
		Short: "List the members of the cluster: role, live or silent since when, version, address",
		Long: "List the members of the cluster, as the log has them: every peer that joined and did not leave, live or not. " +
			"Roles are leader, follower, observer (follows the log and does not vote) and joining (does not vote until it has caught up). " +
			"The answer is the cluster's and needs a leader; with --stale it is what this peer knows.",
		Example: "trivet members\ntrivet members --stale -o wide",
		Method:  "GET", Path: "/v1/members", Stale: true,
		Show: func(all []admin.Member, _ []string) error {
			mark := t.Style()
			type row struct {
				Name, Role, State, Version, Address string
				Joined, LogVersion, ID, Gossip, API string `col:"wide"`
			}
			return t.Show(all, term.Each(all, func(m admin.Member) row {
				role, contact := Role(api.Peer{Leader: m.Leader, Voter: m.Voter,
					Decided: api.Decided{Observer: m.Observer, Maintenance: m.Maintenance}}), state(m.Contact)
				if !m.Live && !m.NeverHeard {
					contact = fmt.Sprintf("silent since %s (%v)", m.SilentSince, age(m.ContactMS))
				}
				return row{m.Name, role, mark.BadIf(!m.Live, contact), m.Binary, m.Address, m.Joined, fmt.Sprint(m.Version), m.ID,
					m.Gossip, m.API}
			}))
		},
	}.Command(peer)
	c.Args = cobra.NoArgs
	c.AddCommand(
		exclusion{path: pathObserver, force: "although it does not live; returns without waiting for its vote",
			done: "%s votes"}.command(t, peer, &cobra.Command{
			Use:   "promote PEER",
			Short: "Make an observer a voter, by name or ID",
			Long: "Make an observer a voter, by name or ID, once it has kept up with the log for 2 s. It is refused while that one does not live: it would only raise\n" +
				"the majority that the others need.",
			Example: "trivet members promote h4",
		}),
		exclusion{path: pathObserver, on: true, force: "although the rest cannot go on without more peers",
			done: "%s is an observer"}.command(t, peer, &cobra.Command{
			Use:   "demote PEER",
			Short: "Make a voter an observer, by name or ID",
			Long: "Make a voter an observer, by name or ID: it follows the log, serves, forwards and works, counts in no majority and never leads. A leader hands\n" +
				"leadership on first. It refuses, with the arithmetic, if the voters that remain could not go on.",
			Example: "trivet members demote h3",
		}),
		membersSetAddress(t, peer))
	return c
}

// Peers is 'trivet peers'.
func Peers(t *term.Terminal, peer term.Peer) *cobra.Command {
	return term.Verb[[]api.Peer]{
		Use:   "peers",
		Short: "List the servers of the log, as this peer sees them; needs no quorum",
		Long: "List the servers of the log, as this peer sees them: role, live or silent for how long, how many entries of the log each lacks\n" +
			"(LAG) and has applied, how far its clock is off, and why it refuses to lead, if it does. It needs no quorum. Who is live is what\n" +
			"the leader hears or, where no leader is known, what this peer hears itself, as in 'trivet status'.",
		Example: "trivet peers",
		Method:  "GET", Path: "/v1/peers",
		Show: func(rows []api.Peer, _ []string) error {
			mark := t.Style()
			type row struct {
				Name, Role, Self, State, Lag, Gossip, Applied, Clock, Refuses string
				Address                                                       string `col:"wide"`
			}
			return t.Show(rows, term.Each(rows, func(r api.Peer) row {
				return row{r.Name, Role(r), term.YesNo(r.Self), markedAs(mark, contactTone(r), state(r.Contact)), lag(r), r.Gossip,
					fmt.Sprint(r.Applied), skew(r.SkewMS), r.Refuses, r.Address}
			}))
		},
	}.Command(peer)
}

// Role is what a peer does in the cluster, and whether an operator keeps it from
// leading.
func Role(r api.Peer) string {
	text := "joining"
	switch {
	case r.Leader:
		text = "leader"
	case r.Voter:
		text = "follower"
	case r.Observer:
		text = "observer"
	}
	if r.Maintenance {
		text += ", in maintenance"
	}
	return text
}

// state is live, or silent and for how long.
func state(c api.Contact) string {
	switch {
	case c.Live:
		return "live"
	case c.NeverHeard:
		return "not heard yet"
	}
	return fmt.Sprintf("silent for %v", age(c.ContactMS))
}

func skew(millis int64) string {
	return fmt.Sprintf("%+.3gs", (time.Duration(millis) * time.Millisecond).Seconds())
}
