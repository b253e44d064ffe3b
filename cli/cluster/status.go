package cluster

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
)

// Status is 'trivet status'.
func Status(t *term.Terminal, peer term.Peer, set *options.Set) *cobra.Command {
	browser := false
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how the cluster stands, as this peer sees it; needs no quorum",
		Long: "Show how the cluster stands, as this peer sees it: who leads, who answers and for how long who does not, on which host machines can\n" +
			"boot, who has the floating IP, what is introspected, who waits for whom since when and until when (docs/waits.md), and every warning\n" +
			"with its remedy. The peer here answers at once from what it knows, and needs no quorum. Who answers is what the leader hears, at most\n" +
			"1.5 s ago, or where no leader is known what this peer hears itself; an older answer says how old it is.\n\n" +
			"The exit code is 0 while the cluster is healthy, 2 while it is degraded, 5 while this peer knows no leader, and 1 where no peer runs.\n" +
			"Degraded: something is broken, or one more loss would break it: a peer is silent, no further voter may be lost although there are three,\n" +
			"a host cannot filter PXE or reach Ironic, and the like. -o json says it for each warning (severity); docs/operate.md lists them.\n" +
			"Clusters of one or two voters are healthy while all answer, with a warning.",
		Example: "  trivet status\n  trivet status --open-browser\n  trivet status -o json\n  trivet status -o wide",
		RunE: func(c *cobra.Command, _ []string) error {
			var s api.Status
			if err := peer.Call(c.Context(), "GET", "/v1/status", nil, &s); err != nil {
				return local.Explained(set, err)
			}
			if browser {
				return openPage(c.Context(), t, peer, set, s)
			}
			err := t.Show(s, term.Text{Names: []string{s.Name}, Print: func() error { return printStatus(t, s) }})
			if err != nil {
				return err
			}
			return healthError(s)
		},
	}
	c.Flags().BoolVar(&browser, "open-browser", false,
		"show the peer's page in a browser instead, by xdg-open, and print its address")
	return c
}

// healthError is nil for a healthy cluster.
func healthError(s api.Status) error {
	switch s.Health {
	case api.NoLeader:
		return term.Fail(term.ExitNoLeader, "see 'trivet status' on the other hosts, too", "no leader is known to %s", s.Name)
	case api.Degraded:
		var codes []string
		for _, w := range s.Warnings {
			if w.Severity == api.SeverityDegraded && !slices.Contains(codes, w.Code) {
				codes = append(codes, w.Code)
			}
		}
		return term.Fail(term.ExitDegraded, "each warning says what to do", "the cluster is degraded: %s",
			strings.Join(codes, ", "))
	}
	return nil
}

// printStatus shows people how the cluster stands.
func printStatus(t *term.Terminal, s api.Status) error {
	now, mark := t.Wall(), t.Style()
	line := func(title, format string, args ...any) {
		fmt.Fprintf(t.Out, "%-12s "+format+"\n", append([]any{title}, args...)...)
	}
	role := s.Role
	if s.Observer {
		role += ", observer"
	}
	if s.Maintenance {
		role += ", in maintenance"
	}
	if !s.Ready {
		role += ", not ready"
	}
	line("peer", "%s, %s", s.Name, role)
	began := ""
	if s.LeaderSince != "" {
		began = " since " + since(s.LeaderSince, now)
	}
	line("leader", "%s", mark.BadIf(s.Leader == "", leaderText(s, began)))
	line("quorum", "%s", markedAs(mark, quorumTone(s.Quorum), Arithmetic(s.Quorum)))
	if s.StaleMS > 0 {
		line("stale", "the state of this peer is as of %v ago", age(s.StaleMS))
	}
	line("heard by", "%s", heardText(s))
	fmt.Fprintln(t.Out)
	type row struct{ Peer, Role, Contact, Lag, Version string }
	err := t.Table(term.Each(s.Peers, func(peer api.Peer) row {
		return row{peer.Name, Role(peer), markedAs(mark, contactTone(peer), contactText(peer)), lag(peer), peer.Version}
	}))
	if err != nil {
		return err
	}
	fmt.Fprintln(t.Out)
	printServices(t, s, now, line)
	printWaits(t.Out, s, now)
	for _, w := range s.Warnings { // with the hosts that each is about
		fmt.Fprintf(t.Out, "%s%5s %s%s (%s)\n%-12s %s\n", markedAs(mark, warningTone(w), "warning"), "",
			whereText(w, len(s.Peers)), term.Printable(w.Text), w.Code, "", term.Printable(w.Remedy))
	}
	return nil
}

// printServices shows what the cluster does for others, and by which versions.
func printServices(t *term.Terminal, s api.Status, now time.Time, line func(title, format string, args ...any)) {
	mark := t.Style()
	line("pxe", "%s", mark.BadIf(s.PXE.Guarded && len(s.PXE.OpenOn) == 0, pxeText(s.PXE, now)))
	if t.Format == "wide" {
		door := "closed: " + term.Dash(s.Door.Why)
		if s.Door.Open {
			door = fmt.Sprintf("open since %s, token %v", term.Dash(s.Door.Since), s.Door.Token)
		}
		line("pxe here", "%s", door)
	}
	if f := s.FloatingIP; f != nil {
		line("floating ip", "%s", mark.BadIf(f.Holder == "", holderText(*f)))
	}
	line("nodes", "%s", nodesText(s.Introspections))
	if f := s.Failover; f != nil {
		paused := ""
		if f.Paused {
			paused = ", paused"
		}
		line("failover", "mode %s: %d remediations open, %d of them stuck%s", f.Mode, f.Open, f.Stuck, paused)
	}
	if l := s.Leases; l != nil {
		line("leases", "%d held, of %d", l.Held, l.Known)
	}
	if t.Format == "wide" {
		line("id", "%s", s.ID)
		line("data", "%s", s.Directory)
	}
	line("cluster", "%s", term.Dash(s.Cluster))
	line("log", "applied up to %d", s.Index)
	line("version", "%s", s.Version)
	if u := s.Upgrade; u != nil {
		next := "then 'trivet upgrade finalize'"
		switch {
		case len(u.WaitsFor) > 0:
			next = "upgrade and start trivet on " + strings.Join(u.WaitsFor, ", ")
		case u.Since != "":
			next = "all hosts run since " + since(u.Since, now) + "; " + next
		}
		line("upgrade", "not finalized: log version %d, not %d; %s", u.LogVersion, u.Newest, next)
		for _, text := range u.HeldBack {
			line("held back", "%s", text)
		}
	}
}

// Arithmetic is the sum of votes in words.
func Arithmetic(q api.Quorum) string {
	text := fmt.Sprintf("%d of %d voters live, %d needed", q.Live, q.Voters, q.Need)
	switch {
	case !q.HasWrite:
		return text + ": no writes"
	case q.CanLose == 0:
		return text + ": none may be lost"
	default:
		return text + fmt.Sprintf(": %d more may be lost", q.CanLose)
	}
}

// age is a duration for people.
func age(millis int64) time.Duration {
	d := time.Duration(millis) * time.Millisecond
	switch {
	case d < time.Second:
		return d.Round(10 * time.Millisecond)
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond)
	default:
		return d.Round(time.Second)
	}
}

// since shows a moment and how long ago it was.
func since(moment string, now time.Time) string {
	at, err := time.Parse(time.RFC3339, moment)
	if err != nil {
		return moment // of another version
	}
	return fmt.Sprintf("%s (%v)", moment, max(now.Sub(at), 0).Round(time.Second))
}

// leaderText says who leads; began, if not empty, begins with a blank and says since when.
func leaderText(s api.Status, began string) string {
	if s.Leader == "" {
		return fmt.Sprintf("none, term %d", s.Term)
	}
	return fmt.Sprintf("%s%s, token %v, term %d", s.Leader, began, s.Token, s.Term)
}

// heardText says whose hearing the table of peers is.
func heardText(s api.Status) string {
	text := s.HeardBy + ", the leader"
	if s.HeardBy != s.Leader {
		text = s.HeardBy + ", this peer: it has no report of a leader"
	}
	if s.AsOfMS > 0 {
		text += fmt.Sprintf(", as of %v ago", age(s.AsOfMS))
	}
	return text
}

// contactText says whether a peer answers.
func contactText(p api.Peer) string {
	text := state(p.Contact)
	if p.Live && p.ContactMS > 0 {
		text += fmt.Sprintf(", %v ago", age(p.ContactMS))
	}
	if p.Self {
		text += ", this peer"
	}
	if p.Live && p.Unreachable {
		text += ", but not reached from here"
	}
	return text
}

func lag(p api.Peer) string {
	if p.Lag < 0 {
		return "-"
	}
	return fmt.Sprint(p.Lag)
}

// pxeText says where machines can boot.
func pxeText(s api.PXEService, now time.Time) string {
	switch {
	case !s.Guarded:
		return "not filtered: firewall.driver is noop"
	case len(s.OpenOn) == 0:
		return "closed on every host, no machine boots: " + term.Dash(s.Why)
	default:
		return fmt.Sprintf("open on %s since %s: machines boot there, and on no other host", strings.Join(s.OpenOn, ", "),
			since(s.Since, now))
	}
}

func holderText(f api.AddressHolder) string {
	if f.Holder == "" {
		return fmt.Sprintf("%s on no host: %s", f.Address, term.Dash(f.Why))
	}
	return fmt.Sprintf("%s on %s", f.Address, f.Holder)
}

// nodeStates are the states of an introspection, in its order.
func nodeStates() []string {
	return []string{"starting", "enrolling", "waiting", "processing", "reapplying", "aborting", "finished", "error"}
}

// nodesText counts introspections by state, in the order of an introspection.
func nodesText(counts map[string]int) string {
	var parts []string
	for _, state := range nodeStates() {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if parts == nil {
		return "no introspections"
	}
	return strings.Join(parts, ", ")
}

// waitsPrinted is how many waits are printed: what comes first is about the cluster.
const waitsPrinted = 8

// printWaits says who waits for whom. What to do is not told twice: a warning that is shown says
// it. What lines of their own tell is told here with its limit alone, if it has one.
func printWaits(w io.Writer, s api.Status, now time.Time) {
	printed, more := 0, s.More
	for _, wait := range s.Waits {
		if printed == waitsPrinted {
			more++
			continue
		}
		told := slices.Contains([]string{"upgrade/open", "pxe/closed", "address/free"}, wait.Kind)
		if told && wait.Until == "" {
			continue
		}
		printed++
		fmt.Fprintf(w, "%-12s %s\n", "waits", term.Printable(wait.Text(now)))
		warned := slices.ContainsFunc(s.Warnings, func(o api.Warning) bool { return o.Code == wait.Warning })
		if !told && !warned {
			fmt.Fprintf(w, "%-12s %s\n", "", term.Printable(wait.Do))
		}
	}
	if more > 0 {
		fmt.Fprintf(w, "%-12s %d more; -o json has them\n", "waits", more)
	}
}

// whereText names the hosts that a warning is about, of that many peers, to stand before its text.
func whereText(warning api.Warning, peers int) string {
	where := strings.Join(warning.Hosts, ", ")
	switch {
	case len(warning.Hosts) > 1 && len(warning.Hosts) == peers:
		return "every host: "
	case where != "" && !strings.HasPrefix(warning.Text, where+" "): // else it begins with the name
		return where + ": "
	}
	return ""
}
