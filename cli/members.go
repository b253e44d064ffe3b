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
		Short: "List the members of the cluster, as the log has them",
		Long: "List the members of the cluster, as the log has them: whoever joined and did not leave, alive or not.\n" +
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
		return table(p.out, p.format, rows, func(m api.Member) string { return m.Name },
			column[api.Member]{"NAME", false, func(m api.Member) string { return m.Name }},
			column[api.Member]{"ADDRESS", false, func(m api.Member) string { return m.Address }},
			column[api.Member]{"DECIDED", false, decided},
			column[api.Member]{"VERSION", false, func(m api.Member) string { return dash(m.Binary) }},
			column[api.Member]{"LOG", false, func(m api.Member) string { return fmt.Sprint(m.Version) }},
			column[api.Member]{"JOINED", false, func(m api.Member) string { return dash(m.Joined) }},
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
		Long: "List the servers of the log, as this peer sees them: who votes, who seems to live, how far each has applied the log,\n" +
			"how far its clock is off, and why it refuses to lead, if it does. It needs no quorum.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var rows []api.Peer
			if err := p.peer().call(c.Context(), "GET", "/v1/peers", nil, &rows); err != nil {
				return err
			}
			return table(p.out, p.format, rows, func(r api.Peer) string { return r.Name },
				column[api.Peer]{"NAME", false, func(r api.Peer) string { return r.Name }},
				column[api.Peer]{"ROLE", false, role},
				column[api.Peer]{"SELF", false, func(r api.Peer) string { return yesNo(r.Self) }},
				column[api.Peer]{"LIVE", false, func(r api.Peer) string { return yesNo(r.Live) }},
				column[api.Peer]{"GOSSIP", false, func(r api.Peer) string { return r.Gossip }},
				column[api.Peer]{"APPLIED", false, func(r api.Peer) string { return fmt.Sprint(r.Applied) }},
				column[api.Peer]{"CLOCK", false, func(r api.Peer) string { return skew(r.SkewMS) }},
				column[api.Peer]{"REFUSES", false, func(r api.Peer) string { return dash(r.Refuses) }},
				column[api.Peer]{"ADDRESS", true, func(r api.Peer) string { return r.Address }},
			)
		},
	}
}

// decided is what an operator has said of a member.
func decided(m api.Member) string {
	switch {
	case m.Observer && m.Maintenance:
		return "observer, maintenance"
	case m.Observer:
		return "observer"
	case m.Maintenance:
		return "maintenance"
	}
	return "-"
}

func role(r api.Peer) string {
	switch {
	case r.Leader:
		return "leader"
	case r.Observer && !r.Voter:
		return "observer"
	case r.Voter:
		return "voter"
	default:
		return "non-voter"
	}
}

func skew(millis int64) string {
	return fmt.Sprintf("%+.3gs", (time.Duration(millis) * time.Millisecond).Seconds())
}
