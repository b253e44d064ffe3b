package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
)

func (p *program) membersCommand() *cobra.Command {
	var stale bool
	c := &cobra.Command{
		Use:   "members",
		Short: "List the members of the cluster: role, live or silent since when, version, address",
		Long: "List the members of the cluster, as the log has them: every peer that joined and did not leave, live or not.\n" +
			"Roles are leader, follower, observer (follows the log and does not vote) and joining (does not vote until it has caught up).\n" +
			"The answer is the cluster's and needs a leader; with --stale it is what this peer knows.",
		Args: cobra.NoArgs,
	}
	c.Flags().BoolVar(&stale, "stale", false, "answer from this peer's own state, also without a quorum")
	c.AddCommand(p.membersPromote(), p.membersDemote(), p.membersSetAddress())
	c.RunE = func(c *cobra.Command, _ []string) error {
		var rows []api.Member
		if err := p.peer().call(c.Context(), "GET", staleable("/v1/members", stale), nil, &rows); err != nil {
			return err
		}
		mark := p.style()
		return table(p.out, p.format, rows, func(m api.Member) string { return m.Name },
			column[api.Member]{"NAME", false, func(m api.Member) string { return m.Name }},
			column[api.Member]{"ROLE", false, memberRole},
			column[api.Member]{"STATE", false, func(m api.Member) string { return mark.badIf(!m.Live, memberState(m)) }},
			column[api.Member]{"VERSION", false, func(m api.Member) string { return dash(m.Binary) }},
			column[api.Member]{"ADDRESS", false, func(m api.Member) string { return m.Address }},
			column[api.Member]{"JOINED", true, func(m api.Member) string { return dash(m.Joined) }},
			column[api.Member]{"LOG VERSION", true, func(m api.Member) string { return fmt.Sprint(m.Version) }},
			column[api.Member]{"DIFFERS", true, func(m api.Member) string { return dash(strings.Join(m.Differs, ",")) }},
			column[api.Member]{"ID", true, func(m api.Member) string { return m.ID }},
			column[api.Member]{"GOSSIP", true, func(m api.Member) string { return dash(m.Gossip) }},
			column[api.Member]{"API", true, func(m api.Member) string { return dash(m.API) }},
		)
	}
	return c
}

func staleable(path string, stale bool) string {
	if stale {
		return path + "?stale=1"
	}
	return path
}

func (p *program) peersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "peers",
		Short: "List the servers of the log, as this peer sees them; needs no quorum",
		Long: "List the servers of the log, as this peer sees them: role, live or silent for how long, how many entries of the log each lacks\n" +
			"(LAG) and has applied, how far its clock is off, and why it refuses to lead, if it does. It needs no quorum. Who is live is what\n" +
			"the leader hears or, where no leader is known, what this peer hears itself, as in 'trivet status'.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var rows []api.Peer
			if err := p.peer().call(c.Context(), "GET", "/v1/peers", nil, &rows); err != nil {
				return err
			}
			mark := p.style()
			return table(p.out, p.format, rows, func(r api.Peer) string { return r.Name },
				column[api.Peer]{"NAME", false, func(r api.Peer) string { return r.Name }},
				column[api.Peer]{"ROLE", false, role},
				column[api.Peer]{"SELF", false, func(r api.Peer) string { return yesNo(r.Self) }},
				column[api.Peer]{"STATE", false, func(r api.Peer) string { return mark.contact(r, state(r.Contact)) }},
				column[api.Peer]{"LAG", false, lag},
				column[api.Peer]{"GOSSIP", false, func(r api.Peer) string { return r.Gossip }},
				column[api.Peer]{"APPLIED", false, func(r api.Peer) string { return fmt.Sprint(r.Applied) }},
				column[api.Peer]{"CLOCK", false, func(r api.Peer) string { return skew(r.SkewMS) }},
				column[api.Peer]{"REFUSES", false, func(r api.Peer) string { return dash(r.Refuses) }},
				column[api.Peer]{"ADDRESS", true, func(r api.Peer) string { return r.Address }},
			)
		},
	}
}

// role is what a peer does in the cluster, and whether an operator keeps it from
// leading.
func role(r api.Peer) string {
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

func memberRole(m api.Member) string {
	return role(api.Peer{Leader: m.Leader, Voter: m.Voter, Observer: m.Observer, Maintenance: m.Maintenance})
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

func memberState(m api.Member) string {
	if !m.Live && !m.NeverHeard {
		return fmt.Sprintf("silent since %s (%v)", m.SilentSince, age(m.ContactMS))
	}
	return state(m.Contact)
}

func skew(millis int64) string {
	return fmt.Sprintf("%+.3gs", (time.Duration(millis) * time.Millisecond).Seconds())
}
