package pxe

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
)

// printed is what a command prints in a format.
func printed(t *testing.T, format string, print func(*term.Terminal) error) string {
	t.Helper()
	var out bytes.Buffer
	if err := print(&term.Terminal{Out: &out, Err: &out, Format: format}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func firewalls() []api.Firewall {
	recorded := api.Recorded{Peer: "h1", Token: 57, Since: "2026-01-02T03:04:05Z"}
	return []api.Firewall{
		{
			Peer: "h1", Role: "leader", Driver: "nftables", Interface: "br-pxe",
			Door:    api.Door{Open: true, Since: "2026-01-02T03:04:05Z", Token: 57, Swaps: 9, Recorded: recorded},
			Address: api.FloatingIP{Address: "192.0.2.1", Held: true},
			Rules: api.Rules{Wanted: api.RuleCounts{Allow: 2, Deny: 40, Pass: true},
				Actual: api.RuleCounts{Allow: 2, Deny: 40, Pass: true}, Equal: true},
			Ports: api.PortList{Ports: 39, Complete: true, AgeMS: 12_345},
		},
		{
			Peer: "h2", Role: "follower", Driver: "iptables",
			Door:    api.Door{Why: "this peer does not lead", Recorded: recorded},
			Address: api.FloatingIP{Address: "192.0.2.1", Why: "this peer does not lead", Conflict: "52:54:00:00:00:09"},
			Rules: api.Rules{Wanted: api.RuleCounts{Deny: 40}, Actual: api.RuleCounts{Deny: 7},
				Problem: "another program changed them", Drift: 1},
			Ports:  api.PortList{Problem: "no answer"},
			Bypass: []api.DHCPServer{{Address: "192.0.2.5", MAC: "52:54:00:00:00:0a"}}, SelfTest: "pxe is down",
		},
		{Peer: "h3", Error: "ask h3: connection refused"},
	}
}

func TestFirewallsAreATable(t *testing.T) {
	got := printed(t, "table", func(on *term.Terminal) error { return printFirewalls(on, firewalls()) })
	want := `
PEER  ROLE      DOOR  SINCE                 TOKEN  ADDRESS  RULES  ALLOW  DENY     PORTS
h1    leader    open  2026-01-02T03:04:05Z  57     held     right  2      40       39, 12s old
h2    follower  shut  -                     -      no       wrong  0      7 of 40  never listed
h3    -         -     -                     -      -        -      -      -        -
recorded  h1 has the door open since 2026-01-02T03:04:05Z, under token 57
h2        door shut: this peer does not lead
h2        floating IP not held: this peer does not lead
h2        floating IP answered by 52:54:00:00:00:09
h2        rules: another program changed them
h2        Ironic's ports: no answer
h2        DHCP server 192.0.2.5 (52:54:00:00:00:0a) answers what every host denies
h2        test of the other hosts: pxe is down
h3        says nothing: ask h3: connection refused
`
	if got != strings.TrimPrefix(want, "\n") {
		t.Errorf("shown:\n%s\nwant:%s", got, want)
	}
	if got := printed(t, "json",
		func(on *term.Terminal) error { return printFirewalls(on, firewalls()) }); strings.Contains(got, "\nrecorded") ||
		!strings.HasPrefix(got, "[") {
		t.Errorf("JSON and something else: %s", got)
	}
}

func TestRecordedDoorIsShownFromAPeerThatAnswers(t *testing.T) {
	for want, door := range map[string]api.Door{
		"no peer has the door open":  {},
		"is not known since":         {Recorded: api.Recorded{Unknown: true}},
		"h1 has the door open since": {Recorded: api.Recorded{Peer: "h1", Token: 9}},
	} {
		if got := recordedText([]api.Firewall{{Error: "away"}, {Peer: "h2", Door: door}}); !strings.Contains(got, want) {
			t.Errorf("shown %q, want %q", got, want)
		}
	}
	if got := recordedText([]api.Firewall{{Error: "away"}}); got != "" {
		t.Errorf("nobody answers, shown %q", got)
	}
}

func explanations() []api.Explanation {
	const mac = "52:54:00:00:00:01"
	rows := []api.Explanation{
		{Peer: "h1", Role: "leader", MAC: mac, Verdict: "drop", Why: "on the blacklist: Ironic knows it", Steps: []api.Step{
			{Rule: "interface", Verdict: "next", Reached: true, Text: "requests are filtered"},
			{Rule: "blacklist", Verdict: "drop", Reached: true, Text: "on the blacklist: Ironic knows it"},
			{Rule: "pass rule", Verdict: "accept", Text: "what no list names may boot"},
		}},
		{Peer: "h2", Role: "follower", MAC: mac, Verdict: "drop", Why: "the lease is not in force here", Steps: []api.Step{
			{Rule: "lease", Verdict: "drop", Reached: true, Text: "the lease is not in force here"},
		}},
		{Peer: "h3", MAC: mac, Error: "ask h3: timeout"},
	}
	for i := range rows {
		rows[i].Node, rows[i].NodeName = "00000000-0000-4000-8000-000002000000", "node-1"
	}
	return rows
}

func TestExplanationIsNumberedAndSummedUp(t *testing.T) {
	got := printed(t, "table", func(on *term.Terminal) error { return printExplanations(on, explanations()) })
	want := `
no peer that knows lets 52:54:00:00:00:01 (node-1, node 00000000-0000-4000-8000-000002000000) boot; h3 cannot tell; on h1, which leads: on the blacklist: Ironic knows it
h1, leader: dropped
  1. interface  requests are filtered
  2. blacklist  DROPPED: on the blacklist: Ironic knows it
  3. pass rule  (would be let through) what no list names may boot
h2, follower: dropped
  1. lease      DROPPED: the lease is not in force here
h3: says nothing: ask h3: timeout
`
	if got != strings.TrimPrefix(want, "\n") {
		t.Errorf("shown:\n%s\nwant:%s", got, want)
	}
}

// TestMachinesOfANode: each MAC has its verdict first; a name that cannot be had
// is said to be missing.
func TestMachinesOfANode(t *testing.T) {
	all := explanations()[1:2]
	all[0].NodeName, all[0].NodeProblem = "", "Ironic did not tell the names of nodes: refused"
	second := all[0]
	second.MAC, second.Verdict, second.Steps = "52:54:00:00:00:02", "accept", nil
	got := printed(t, "table", func(on *term.Terminal) error { return printExplanations(on, append(all, second)) })
	want := `
no peer lets 52:54:00:00:00:01 (node 00000000-0000-4000-8000-000002000000) boot
name of the node: Ironic did not tell the names of nodes: refused
h2, follower: dropped
  1. lease      DROPPED: the lease is not in force here

52:54:00:00:00:02 (node 00000000-0000-4000-8000-000002000000) boots from h2
name of the node: Ironic did not tell the names of nodes: refused
h2, follower: let through
`
	if got != strings.TrimPrefix(want, "\n") {
		t.Errorf("shown:\n%s\nwant:%s", got, want)
	}
}

func TestConclusion(t *testing.T) {
	all := explanations()[:2]
	all[0].Node, all[1].Node = "", ""
	if got := conclusion(
		all); got != "no peer lets 52:54:00:00:00:01 boot; on h1, which leads: on the blacklist: Ironic knows it" {
		t.Errorf("all drop: %s", got)
	}
	all[1].Verdict = "accept"
	if got := conclusion(all); got != "52:54:00:00:00:01 boots from h2" {
		t.Errorf("one lets it through: %s", got)
	}
	if got := printed(t, "name", func(on *term.Terminal) error { return printExplanations(on, all) }); got != "h2\n" {
		t.Errorf("names: %q", got)
	}
}

// TestCloseByDefaultsAlone: a peer whose configuration is gone had an interface that is not known any more; the door
// of another one is not shut in its place, and the unit fails, which keeps dnsmasq down.
func TestCloseByDefaultsAlone(t *testing.T) {
	for name, c := range map[string]struct {
		text, folder string
		shut         bool
	}{
		"an emptied file, a peer":           {"", "peer", false},
		"comments alone, a peer":            {"# name: h1\n", "peer", false},
		"an emptied file, a founding":       {"", ".founded-recover-20261121T140000Z", false},
		"the socket alone, a peer":          {"socket: /run/other.sock\n", "peer", false},
		"a file that leaves the default":    {"name: h1\n", "peer", true},
		"an emptied file, a peer set aside": {"", "before-recover-20261121T140000Z", true},
		"an emptied file, no peer":          {"", ".", true},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "trivet.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, "state", c.folder), 0o700); err != nil {
			t.Fatal(err)
		}
		terminal := &term.Terminal{Out: new(bytes.Buffer), Err: new(bytes.Buffer)}
		set := options.New(terminal, pflag.NewFlagSet("close", pflag.ContinueOnError))
		set.File, set.Values["data_dir"] = file, filepath.Join(dir, "state")
		shut := false
		err := closeOffline(t.Context(), terminal, set, func(context.Context, config.Config) error {
			shut = true
			return nil
		})
		if shut != c.shut || (err == nil) != c.shut {
			t.Errorf("interface-known: %s: shut %t, %v; want %t", name, shut, err, c.shut)
		}
		if err != nil && !strings.Contains(err.Error(), "its firewall.interface is not known") {
			t.Errorf("interface-known: %s: %v", name, err)
		}
	}
}

// TestEndsOfTheWayBack: the old DHCP server answers at the end of docs/migrate.md only if Trivet's lines for dnsmasq go
// first, and the rules once nothing builds them again; driver noop by itself leaves both.
func TestEndsOfTheWayBack(t *testing.T) {
	text, err := os.ReadFile("../../docs/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "### The way back\n")
	for _, step := range []string{"`trivet dnsmasq-config --uninstall`", "`systemctl disable --now trivet`",
		"`firewall.driver: noop`", "\n   nft delete table inet trivet_pxe\n", "](#old-lines) back"} {
		at := strings.Index(page, step)
		if at < 0 {
			t.Fatalf("way-back: docs/migrate.md lacks %q, or has it earlier", step)
		}
		page = page[at:]
	}
	file := filepath.Join(t.TempDir(), "trivet.yaml")
	if err := os.WriteFile(file, []byte("firewall: {driver: noop}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	terminal := &term.Terminal{Out: &told, Err: &told}
	set := options.New(terminal, pflag.NewFlagSet("close", pflag.ContinueOnError))
	set.File, set.Values["data_dir"] = file, t.TempDir()
	err = closeOffline(t.Context(), terminal, set, func(context.Context, config.Config) error { return nil })
	if err != nil || !strings.Contains(told.String(), "'nft delete table inet trivet_pxe'") {
		t.Errorf("way-back: noop says %v: %s", err, told.String())
	}
}
