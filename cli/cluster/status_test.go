package cluster

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
)

// state3 is a cluster of three, as h2 sees it, that change makes another one.
func state3(change func(*api.Status)) api.Status {
	s := api.Status{
		Build: api.Build{Name: "h2", Cluster: "5f0c1f3e", Version: "1.4.0"},
		Leadership: api.Leadership{
			Health: api.Healthy, Role: "follower", Leader: "h1", LeaderSince: "2026-01-02T03:00:00Z", Token: 4_000_017, Term: 3,
			Index: 1204, Ready: true,
			Quorum: api.Quorum{Voters: 3, Live: 3, Need: 2, CanLose: 1, HasWrite: true},
		},
		Hearing: api.Hearing{HeardBy: "h1"},
		Services: api.Services{
			PXE:            api.PXEService{Guarded: true, OpenOn: []string{"h1"}, Since: "2026-01-02T03:00:01Z"},
			FloatingIP:     &api.AddressHolder{Address: "192.0.2.10", Holder: "h1"},
			Introspections: map[string]int{"waiting": 3, "processing": 1, "finished": 112, "error": 2},
			Failover:       &api.FailoverCounts{Mode: "safe", Open: 1}, Leases: &api.LeaseCounts{Known: 5, Held: 3},
		},
	}
	for _, name := range []string{"h1", "h2", "h3"} {
		s.Peers = append(s.Peers,
			api.Peer{Name: name, Voter: true, Version: "1.4.0", Leader: name == "h1", Self: name == "h2",
				Contact: api.Contact{Live: true, ContactMS: 83}})
	}
	change(&s)
	return s
}

// waitAll has much wait.
func waitAll(s *api.Status) {
	s.Upgrade = &api.Upgrade{LogVersion: 2, Newest: 3, Since: "2026-01-02T03:00:00Z"}
	s.Warnings = []api.Warning{{Code: "maintenance", Severity: api.SeverityAdvice, Text: "in maintenance: h3",
		Remedy: "'trivet maintenance off h3'"}}
	s.Waiting = api.Waiting{More: 2, Waits: []api.Wait{
		{Kind: "upgrade/open", Subject: "log version 3", Count: 1, For: "the end of an upgrade", Then: "no time limit",
			Do: "'trivet upgrade finalize'"},
		{Kind: "maintenance", Subject: "peer h3", Count: 1, For: "an operator", Since: "2026-01-02T03:00:05Z",
			Then: "no time limit", Do: "'trivet maintenance off h3'", Warning: "maintenance"},
		{Kind: "introspection/waiting", Subject: "node 1be26c0b-03f2-4d2e-ae87-c02d7f33c123", Count: 3,
			For: "the machine, to boot\x1b[2J", Since: "2026-01-02T03:02:05Z", Until: "2026-01-02T03:17:05Z",
			Then: "it ends in error", Do: "look at its console"},
	}}
}

// TestStatusOutput holds the text of trivet status to testdata/status.golden, which
// UPDATE_GOLDEN=1 renews.
func TestStatusOutput(t *testing.T) {
	silent := api.Contact{ContactMS: 3240, SilentSince: "2026-01-02T03:04:01Z"}
	var all bytes.Buffer
	for _, c := range []struct {
		name   string
		code   int
		format string
		change func(*api.Status)
	}{
		{"healthy", term.ExitOK, "table", func(*api.Status) {}},
		{"machines, an upgrade and maintenance wait", term.ExitOK, "table", waitAll},
		{"degraded: h3 is silent, h1 and h3 have warnings", term.ExitDegraded, "table", func(s *api.Status) {
			s.Health, s.Quorum.Live, s.Quorum.CanLose = api.Degraded, 2, 0
			s.Peers[2].Contact, s.Peers[2].Lag = silent, -1
			s.FloatingIP = &api.AddressHolder{Address: "192.0.2.10", Why: "h1, the leader: 52:54:00:ab:00:99 answers for it"}
			s.Warnings = []api.Warning{
				{Code: "peer_silent", Severity: api.SeverityDegraded, Hosts: []string{"h3"}, Text: "h3 silent for 3.2 s",
					Remedy: "on h3: 'systemctl status trivet'"},
				{Code: "no_margin", Severity: api.SeverityDegraded, Text: "no further voter may be lost: h3 does not answer",
					Remedy: "bring h3 back"},
				{Code: "restart_needed", Severity: api.SeverityAdvice, Hosts: []string{"h1", "h2"}, Text: "changed: raft.timing",
					Remedy: "'systemctl restart trivet'"},
				{Code: "ironic_away", Severity: api.SeverityDegraded, Hosts: []string{"h1", "h2", "h3"},
					Text: "Ironic cannot be reached\x1b[2J", Remedy: "see 'ironic'"},
			}
		}},
		{"no leader", term.ExitNoLeader, "table", func(s *api.Status) {
			s.Health, s.Leader, s.LeaderSince, s.HeardBy, s.StaleMS = api.NoLeader, "", "", "h2", 3400
			s.Quorum = api.Quorum{Voters: 3, Live: 1, Need: 2}
			s.Peers[0].Contact, s.Peers[0].Leader, s.Peers[2].Contact = silent, false,
				api.Contact{NeverHeard: true, ContactMS: 90_000}
			s.Peers[0].Lag, s.Peers[1].Lag, s.Peers[2].Lag = -1, -1, -1
			s.PXE = api.PXEService{Guarded: true, Why: "no quorum"}
			s.FloatingIP, s.Failover, s.Leases, s.Introspections = nil, nil, nil, nil
		}},
		{"the process was stopped; an observer, a joining peer, one in maintenance", term.ExitOK, "wide",
			func(s *api.Status) {
				s.AsOfMS, s.ID, s.Directory = 34_400, "id-2", "/var/lib/trivet"
				s.Peers[1].Voter, s.Peers[1].Observer = false, true
				s.Peers[2].Voter, s.Peers[2].Unreachable, s.Peers[2].Lag = false, true, 4711
				s.Peers[0].Maintenance, s.Failover.Paused = true, true
				s.PXE, s.Door = api.PXEService{}, api.Door{Why: "this peer guards no door"}
			}},
	} {
		var out, talk bytes.Buffer
		on := &term.Terminal{Out: &out, Err: &talk, Format: c.format,
			Wall: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }}
		s := state3(c.change)
		if err := printStatus(on, s); err != nil {
			t.Fatal(err)
		}
		checkColour(t, on, s, c.name, out.String(), c.code != term.ExitOK)
		err := healthError(s)
		if err != nil {
			(&term.Terminal{Err: &talk}).Complain(err)
		}
		if got := term.ExitOf(err); got != c.code {
			t.Errorf("%s: exit %d, want %d", c.name, got, c.code)
		}
		all.WriteString("-- " + c.name + " --\n" + out.String() + talk.String() + "\n")
	}
	path := filepath.Join("testdata", "status.golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, all.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(all.Bytes(), want) {
		t.Errorf("status prints (UPDATE_GOLDEN=1 go test ./cli/cluster -run TestStatusOutput renews the file):\n%s",
			all.String())
	}
}

// checkColour wants that colour adds nothing but its sequences, and red exactly
// where the exit code says that something is wrong.
func checkColour(t *testing.T, on *term.Terminal, s api.Status, name, plain string, wrong bool) {
	t.Helper()
	var coloured bytes.Buffer
	inColour := *on
	inColour.Out, inColour.Color = &coloured, term.ColorAlways
	if err := printStatus(&inColour, s); err != nil {
		t.Fatal(err)
	}
	if got := withoutColour(coloured.String()); got != plain {
		t.Errorf("%s: with --color=always the text differs:\n%s\nwithout:\n%s", name, got, plain)
	}
	if red := strings.Contains(coloured.String(), "\x1b[1;31m"); red != wrong {
		t.Errorf("%s: red is %v, want %v:\n%s", name, red, wrong, coloured.String())
	}
}

// withoutColour removes the sequences of style.
func withoutColour(text string) string {
	return strings.NewReplacer("\x1b[1;31m", "", "\x1b[1;33m", "", "\x1b[1m", "", "\x1b[0m", "").Replace(text)
}

// TestStatusDocumentKeepsItsFields: scripts read them.
func TestStatusDocumentKeepsItsFields(t *testing.T) {
	text, err := json.Marshal(state3(func(*api.Status) {}))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"name", "id", "cluster_id", "version", "health", "role", "leader", "token", "term",
		"applied_index", "ready", "quorum", "stale_for_ms", "door",
		"data_dir", "heard_by", "as_of_ms", "peers", "pxe", "introspections", "leader_since", "live", "can_lose", "voter",
		"last_contact_ms", "lag"} {
		if !strings.Contains(string(text), `"`+field+`":`) {
			t.Errorf("status-fields: there is no %q in %s", field, text)
		}
	}
	if n := strings.Count(string(text), `"role":`); n != 1 { // recovery.md looks for that of this peer
		t.Errorf("status-fields: %d fields are called role", n)
	}
}
