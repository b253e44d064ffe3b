// Package pxe is the verbs about who boots, and from where.
package pxe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	pxefilter "github.com/trivet-ha/trivet/firewall/host"
)

// closeLimit bounds 'trivet firewall close --offline': a unit waits for it.
const closeLimit = 20 * time.Second

// Firewall is 'trivet firewall'.
func Firewall(t *term.Terminal, peer term.Peer, set *options.Set) *cobra.Command {
	show := term.Verb[[]api.Firewall]{
		Use:   "show",
		Short: "Show door, floating IP and rules of every peer; needs no quorum",
		Long: "Show for every peer whether its door is open, who has the floating IP, and whether the rules in its kernel are those that\n" +
			"the state wants. The peer here asks the others; one that does not answer is shown as such.",
		Example: "trivet firewall show\ntrivet firewall show --local -o wide",
		Method:  "GET", Path: "/v1/firewall", Others: true,
		Show: func(rows []api.Firewall, _ []string) error { return printFirewalls(t, rows) },
	}.Command(peer)
	explain := term.Verb[[]api.Explanation]{
		Use:   "explain NODE|MAC",
		Short: "Say why a machine boots, or does not: every rule it meets, on each peer",
		Long: "Say why a machine boots, or does not: every rule that its requests meet on each peer, in order, which one decides, and what that means.\n" +
			"NODE is the UUID of a node, or its name in Ironic; then each of its MACs is explained. MAC is a hardware address, as in 52:54:00:12:34:56.\n" +
			"Below it stands what was heard of the machine's newest boot, and why it has not called (docs/pxe.md#recorder).",
		Example: "trivet firewall explain node-1\ntrivet firewall explain 52:54:00:ab:00:01",
		Method:  "GET", Path: "/v1/firewall/explain/{NODE|MAC}", Others: true,
		Show: func(rows []api.Explanation, _ []string) error { return printExplanations(t, rows) },
	}.Command(peer)
	return term.Group("firewall", "The PXE filter: who lets machines boot, and why", show, explain, firewallHeard(t, peer),
		firewallClose(t, set))
}

func printFirewalls(t *term.Terminal, rows []api.Firewall) error {
	mark := t.Style()
	type row struct {
		Peer, Role, Door, Since, Token, Address, Rules, Allow, Deny, Ports string
		Driver, Interface, Pass, Compared, Drift, Swaps, Lapses            string `col:"wide"`
	}
	err := t.Show(rows, term.Each(rows, func(f api.Firewall) row {
		if f.Error != "" {
			return row{Peer: f.Peer}
		}
		door, held, rules, ports := "shut", "no", rulesText(f), "never listed"
		if f.Door.Open {
			door = "open"
		}
		switch {
		case f.Address.Address == "":
			held = ""
		case f.Address.Held:
			held = "held"
		}
		if f.Ports.Complete {
			ports = fmt.Sprintf("%d, %v old", f.Ports.Ports,
				(time.Duration(f.Ports.AgeMS) * time.Millisecond).Round(time.Second))
		}
		return row{
			f.Peer, f.Role, door, f.Door.Since, token(f), held, mark.BadIf(rules == rulesWrong, rules),
			ofWanted(f.Rules.Actual.Allow, f.Rules.Wanted.Allow), ofWanted(f.Rules.Actual.Deny, f.Rules.Wanted.Deny), ports,
			f.Driver, f.Interface, term.YesNo(f.Rules.Actual.Pass), f.Rules.AsOf, fmt.Sprint(f.Rules.Drift),
			fmt.Sprint(f.Door.Swaps), fmt.Sprint(f.Door.Lapses),
		}
	}))
	if err != nil || t.Format != "table" && t.Format != "wide" {
		return err
	}
	if recorded := recordedText(rows); recorded != "" {
		fmt.Fprintf(t.Out, "recorded  %s\n", recorded)
	}
	for _, f := range rows { // below the table what does not fit into it
		for _, finding := range findings(f) {
			fmt.Fprintf(t.Out, "%-9s %s\n", f.Peer, term.Printable(finding))
		}
	}
	return nil
}

func token(f api.Firewall) string {
	if f.Door.Token.IsZero() {
		return ""
	}
	return f.Door.Token.String()
}

// rulesWrong is shown for rules that another program changed, or that the kernel
// refused.
const rulesWrong = "wrong"

func rulesText(f api.Firewall) string {
	switch {
	case f.Driver == "noop":
		return "none"
	case f.Rules.Equal:
		return "right"
	case f.Rules.Problem != "":
		return rulesWrong
	default:
		return "behind"
	}
}

// ofWanted shows what is and, if it differs, what should be.
func ofWanted(actual, wanted int) string {
	if actual == wanted {
		return fmt.Sprint(actual)
	}
	return fmt.Sprintf("%d of %d", actual, wanted)
}

// recordedText is what the log says of the door, as the first peer that answers
// has it.
func recordedText(rows []api.Firewall) string {
	for _, f := range rows {
		r := f.Door.Recorded
		switch {
		case f.Error != "":
			continue
		case r.Peer != "":
			return fmt.Sprintf("%s has the door open since %s, under token %v", r.Peer, term.Dash(r.Since), r.Token)
		case r.Unknown:
			return "who has the door open is not known since a restore or recovery"
		}
		return "no peer has the door open"
	}
	return ""
}

// findings are what a person should know of one host.
func findings(f api.Firewall) []string {
	if f.Error != "" {
		return []string{"says nothing: " + f.Error}
	}
	var out []string
	say := func(what, text string) {
		if text != "" {
			out = append(out, what+text)
		}
	}
	say("door shut: ", f.Door.Why)
	say("floating IP not held: ", f.Address.Why)
	say("floating IP answered by ", f.Address.Conflict)
	say("rules: ", f.Rules.Problem)
	say("Ironic's ports: ", f.Ports.Problem)
	for _, s := range f.Bypass {
		say("", fmt.Sprintf("DHCP server %s (%s) answers what every host denies", s.Address, s.MAC))
	}
	say("test of the other hosts: ", f.SelfTest)
	return out
}

func printExplanations(t *term.Terminal, rows []api.Explanation) error {
	var through []string
	for _, x := range rows {
		if x.Verdict == "accept" {
			through = append(through, x.Peer)
		}
	}
	return t.Show(rows, term.Text{Names: through, Print: func() error {
		for i, same := range byMAC(rows) {
			if i > 0 {
				fmt.Fprintln(t.Out)
			}
			printMachine(t, same)
		}
		return nil
	}})
}

// byMAC cuts explanations into those of one MAC each; they come in that order.
func byMAC(rows []api.Explanation) [][]api.Explanation {
	var out [][]api.Explanation
	for i, x := range rows {
		if i == 0 || rows[i-1].MAC != x.MAC {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], x)
	}
	return out
}

// printMachine prints the verdict on one MAC, then how each peer comes to it, and what the machine did last.
func printMachine(t *term.Terminal, rows []api.Explanation) {
	mark := t.Style()
	fmt.Fprintln(t.Out, mark.Bold(term.Printable(conclusion(rows))))
	if problem := rows[0].NodeProblem; problem != "" {
		fmt.Fprintf(t.Out, "name of the node: %s\n", mark.Doubtful(term.Printable(problem)))
	}
	for _, x := range rows {
		if x.Error != "" {
			fmt.Fprintf(t.Out, "%s: %s\n", x.Peer, mark.Bad(term.Printable("says nothing: "+x.Error)))
			continue
		}
		fmt.Fprintf(t.Out, "%s, %s: %s\n", x.Peer, x.Role, verdictText(x.Verdict))
		for i, s := range x.Steps {
			decides := "" // begins the line of a step that decides, or would
			switch {
			case s.Verdict == "next":
			case s.Reached:
				decides = strings.ToUpper(verdictText(s.Verdict)) + ": "
			default:
				decides = "(would be " + verdictText(s.Verdict) + ") "
			}
			fmt.Fprintf(t.Out, "  %d. %-10s %s%s\n", i+1, s.Rule, decides, term.Printable(s.Text))
		}
	}
	var boot *api.Boot // the leader's account, which is the newest, else another peer's
	for _, x := range rows {
		if x.Boot != nil && (boot == nil || x.Role == "leader") {
			boot = x.Boot
		}
	}
	if boot == nil {
		return
	}
	fmt.Fprintln(t.Out, "what it did last:")
	for _, s := range boot.Steps {
		fmt.Fprintf(t.Out, "  %s  %s\n", s.Time, term.Printable(s.Text))
	}
	if boot.Dropped > 0 {
		fmt.Fprintf(t.Out, "  %d steps in between were left out\n", boot.Dropped)
	}
	for _, f := range boot.Findings { // why it has not called
		fmt.Fprintf(t.Out, "%s: %s\n", mark.Doubtful(f.Code), term.Printable(f.Text))
		fmt.Fprintf(t.Out, "  %s\n", f.Remedy)
	}
}

// verdictText is a verdict in one word for the machine's requests.
func verdictText(verdict string) string {
	switch verdict {
	case "accept":
		return "let through"
	case "drop":
		return "dropped"
	default:
		return "not known"
	}
}

// conclusion sums the peers up.
func conclusion(rows []api.Explanation) string {
	var through, unknown []string
	leaders := ""
	for _, x := range rows {
		switch {
		case x.Verdict == "accept":
			through = append(through, x.Peer)
		case x.Verdict != "drop":
			unknown = append(unknown, x.Peer)
		case x.Role == "leader":
			leaders = fmt.Sprintf("; on %s, which leads: %s", x.Peer, x.Why)
		}
	}
	machine := rows[0].MAC // and its node, if that is known; the peer that answers is always among the rows
	switch x := rows[0]; {
	case x.Node == "":
	case x.NodeName == "":
		machine += fmt.Sprintf(" (node %s)", x.Node)
	default:
		machine += fmt.Sprintf(" (%s, node %s)", x.NodeName, x.Node)
	}
	switch {
	case len(through) > 0:
		return fmt.Sprintf("%s boots from %s", machine, strings.Join(through, ", "))
	case len(unknown) > 0:
		return fmt.Sprintf("no peer that knows lets %s boot; %s cannot tell%s", machine, strings.Join(unknown, ", "), leaders)
	default:
		return fmt.Sprintf("no peer lets %s boot%s", machine, leaders)
	}
}

func firewallClose(t *term.Terminal, set *options.Set) *cobra.Command {
	var offline, purge bool
	c := &cobra.Command{
		Use:   "close",
		Short: "Shut this host's door from the configuration alone, before or after the peer runs",
		Long: "Install the PXE filter of this host, shut, without a peer, a log or the network, and take away what a killed\n" +
			"peer left of the floating IP. For a unit that runs before the DHCP server starts, and after the peer has ended.\n" +
			"No rule lets a machine through when it returns. A peer that runs and leads opens the door again by itself: stop\n" +
			"it first.\n\n" +
			"With firewall.driver dnsmasq the files that dnsmasq may have read are rewritten, so that it ignores every machine. With --purge\n" +
			"they are removed, and the directory is made if need be: at boot, before dnsmasq starts. A dnsmasq that runs does not notice what\n" +
			"is removed; restart it then.",
		Example: "trivet firewall close --offline",
	}
	c.Flags().BoolVar(&offline, "offline", false, "needed: a running peer shuts its door by itself")
	c.Flags().BoolVar(&purge, "purge", false, "driver dnsmasq: empty the directory, since no DHCP server runs")
	set.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !offline {
			return term.Fail(term.ExitUsage,
				"'trivet firewall close --offline' shuts it without the peer; to hand leadership on: 'trivet transfer'",
				"firewall close: a running peer shuts its door by itself")
		}
		if purge {
			return closeOffline(c.Context(), t, set, pxefilter.PurgeOffline)
		}
		return closeOffline(c.Context(), t, set, pxefilter.CloseOffline)
	}
	return c
}

// earlierRules is what driver noop leaves alone.
const earlierRules = "rules of an earlier driver stay in force until a reboot: 'nft list tables' names trivet_pxe then, and " +
	"'nft delete table inet trivet_pxe' takes them away (driver iptables: the chains TRIVET-…, too)"

func closeOffline(ctx context.Context, t *term.Terminal, set *options.Set,
	shut func(context.Context, config.Config) error) error {
	conf, err := set.Load()
	if err == nil {
		err = interfaceKnown(conf)
	}
	if err != nil {
		return err
	}
	filters := conf.Firewall.Driver != "noop"
	if !filters && conf.FloatingIP.Address == "" {
		t.Say("nothing was done: firewall.driver is noop, which filters nothing; %s", earlierRules)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	if err := shut(ctx, conf); err != nil {
		return term.Fail(term.ExitFailed,
			"until this works, keep the DHCP server of this host stopped; it needs root or CAP_NET_ADMIN",
			"shut the PXE filter: %w", err)
	}
	if !filters {
		t.Say("this host does not have the floating IP; firewall.driver is noop, which filters nothing; %s", earlierRules)
		return nil
	}
	t.Say("shut: no machine boots from this host by %s", conf.Firewall.Interface)
	return nil
}

// interfaceKnown refuses to shut the door by defaults alone on the host of a peer. What that peer was configured
// by is gone, and firewall.interface with it: rules for the default interface would take the place of those in the
// kernel, and leave the interface open on which machines boot.
func interfaceKnown(conf config.Config) error {
	for _, s := range conf.Effective() {
		if s.Origin.Kind != config.FromDefault && s.Key != "data_dir" && s.Key != "socket" {
			return nil
		}
	}
	if _, _, err := datadir.Peek(conf.DataDir); errors.Is(err, datadir.ErrNoPeer) {
		return nil
	}
	return term.Fail(term.ExitUsage,
		"put the file back (rpm keeps it as "+options.DefaultFile+".rpmsave), or give the variables of the unit trivet "+
			"to trivet-firewall, too; until then keep the DHCP server of this host stopped",
		"shut the PXE filter: nothing is configured, and a peer lives in %s: its firewall.interface is not known",
		conf.DataDir)
}
