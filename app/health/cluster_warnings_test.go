package health

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
)

// seen is the status of h1 in a cluster of voters that were heard so long ago.
func seen(leader string, silent ...time.Duration) api.Status {
	s := api.Status{Build: api.Build{Name: "h1"}, Leadership: api.Leadership{Leader: leader}}
	for i, age := range silent {
		name := "h" + string(rune('1'+i))
		live := age <= time.Second
		s.Peers = append(s.Peers,
			api.Peer{Name: name, Voter: true, Self: i == 0, Leader: name == leader,
				Contact: api.Contact{Live: live, ContactMS: age.Milliseconds()}})
		s.Quorum.Voters++
		if live {
			s.Quorum.Live++
		}
	}
	s.Quorum.Need = s.Quorum.Voters/2 + 1
	s.Quorum.CanLose = max(s.Quorum.Live-s.Quorum.Need, 0)
	return s
}

func TestClusterWarnings(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		status api.Status
		codes  string
		says   []string
		not    string
	}{
		"healthy":    {seen("h2", 0, 0, 0), "", nil, ""},
		"one voter":  {seen("h1", 0), "few_voters", nil, ""},
		"two voters": {seen("h1", 0, 0), "two_voters", nil, ""},
		"one silent": {seen("h2", 0, 0, 3*second), "peer_silent no_margin",
			[]string{"h3 silent for 3.0 s", "on h3: 'systemctl status trivet'", "bring h3 back"}, "recover"},
		"an election": {seen("", 0, 0, 2*second), "peer_silent no_leader",
			[]string{"an election is under way; 2 of 3 voters answer, 2 are needed"}, "recover"},
		"alone": {seen("", 0, 5*second, 5*second), "peer_silent peer_silent no_leader",
			[]string{"no other voter answers this host", doctor.AskPeers, "h2 and h3"}, "recover"},
		"alone for long": {seen("", 0, 61*second, 2*time.Minute), "peer_silent peer_silent no_leader",
			[]string{"h2 and h3 silent for more than a minute", "bring h2 and h3 back", "trivet recover --help"}, ""},
		"one of two long": {seen("", 0, 61*second, 2*second), "peer_silent peer_silent no_leader",
			[]string{"no other voter answers this host"}, "recover"},
		"three of five": {seen("", 0, 0, 2*second, 2*second, 2*second), "peer_silent peer_silent peer_silent no_leader",
			[]string{"2 of 5 voters answer, 3 are needed", "bring h3, h4 and h5 back"}, "recover"},
		"three of 5, long": {seen("", 0, 0, 61*second, 61*second, 61*second), "peer_silent peer_silent peer_silent no_leader",
			[]string{"trivet recover --help"}, ""},
	} {
		var codes []string
		var text strings.Builder
		for _, w := range clusterWarnings(c.status, "") {
			codes = append(codes, w.Code)
			text.WriteString(w.Text + "\n" + w.Remedy + "\n")
		}
		if got := strings.Join(codes, " "); got != c.codes {
			t.Errorf("%s: %s, want %s", name, got, c.codes)
		}
		for _, want := range c.says {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s: says %q, want %q", name, text.String(), want)
			}
		}
		if c.not != "" && strings.Contains(text.String(), c.not) {
			t.Errorf("recover-too-early: %s: %q names %q", name, text.String(), c.not)
		}
	}
	never := seen("h1", 0, 0, time.Minute)
	never.Peers[2].NeverHeard = true
	if w := clusterWarnings(never, "")[0]; !strings.Contains(w.Text, "h3 not heard since this peer started 1m0s ago") ||
		!slices.Equal(w.Hosts, []string{"h3"}) {
		t.Errorf("never heard: %+v", w)
	}
}

func TestHealth(t *testing.T) {
	advice, broken := api.Warning{Code: "restart_needed"}, api.Warning{Code: "peer_silent"}
	for want, c := range map[string]struct {
		leader   string
		warnings []api.Warning
	}{
		api.Healthy:  {"h1", []api.Warning{advice}},
		api.Degraded: {"h1", []api.Warning{advice, broken}},
		api.NoLeader: {"", []api.Warning{broken}},
	} {
		if got := rated(c.leader, c.warnings); got != want {
			t.Errorf("health %s, want %s", got, want)
		}
		for _, w := range c.warnings {
			if degraded := w.Severity == api.SeverityDegraded; degraded != (w.Code == broken.Code) {
				t.Errorf("%s has severity %q", w.Code, w.Severity)
			}
		}
	}
}

// TestDegradingIsDocumented holds the marks in docs/operate.md to the code.
func TestDegradingIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operate.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range warningCodes() {
		listed := regexp.MustCompile("(?m)^\\|[^|]*`" + code + "`(\\*?)[, |]").FindStringSubmatch(string(page))
		if listed == nil || (listed[1] == "*") != degrades(code) {
			t.Errorf("docs/operate.md: %s is marked %v, and degrades: %v", code, listed, degrades(code))
		}
	}
}

// three is a view with members h1 to h3.
func three(t *testing.T) fsm.View {
	t.Helper()
	state, err := fsm.Founded(
		fsm.Found{ClusterID: "5f0c1f3e-0000-4000-8000-000000000001", CACert: []byte("-----BEGIN CERTIFICATE-----"),
			CAKey: []byte("-----BEGIN PRIVATE KEY-----"), GossipKey: make([]byte, 32),
			Member: membership.Member{ID: "1", Name: "h1", Address: "h1:7350", Version: fsm.Version}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"h2", "h3"} {
		data, err := fsm.Encode(fsm.Header{},
			membership.PutMember{Member: membership.Member{ID: name[1:], Name: name, Address: name + ":7350",
				Version: fsm.Version}})
		if err != nil {
			t.Fatal(err)
		}
		if err := state.Apply(fsm.Entry{Index: uint64(2 + i), Term: 1, Data: data}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return state.View()
}

func TestWarningsOfAllHostsAreMerged(t *testing.T) {
	own := api.Warning{Code: "ironic_away", Text: "refused", Remedy: "see", Hosts: []string{"h1"}}
	other := api.Warning{Code: "disk_low", Text: "fills", Remedy: "make room", Hosts: []string{"a name of its own"}}
	wide := api.Warning{Code: "old_port_list", Text: "12s old", Remedy: "see", Hosts: []string{"h1"}}
	older := wide
	older.Text = "13s old"
	got := merged(three(t), "1", map[string]hostReport{
		"1": {Warnings: []api.Warning{own, wide}}, "2": {Warnings: []api.Warning{other, older}},
		"3": {Warnings: []api.Warning{own}}, "9": {Warnings: []api.Warning{other}},
	})
	if len(got) != 3 || !slices.Equal(got[0].Hosts, []string{"h1", "h3"}) || got[1].Hosts != nil ||
		!slices.Equal(got[2].Hosts, []string{"h2"}) {
		t.Errorf("merged: %+v", got)
	}
}

func TestServices(t *testing.T) {
	v := three(t)
	guarded := hostReport{Guarded: true, Door: api.Door{Why: "h2 leads"}}
	open := hostReport{Guarded: true, Door: api.Door{Open: true, Since: "2026-01-02T03:04:05Z"}}
	ip := func(held bool, why string) hostReport {
		return hostReport{Address: api.FloatingIP{Address: "192.0.2.10", Held: held, Why: why}}
	}
	for name, c := range map[string]struct {
		lead    string
		reports map[string]hostReport
		open    string
		why     string
	}{
		"open":             {"2", map[string]hostReport{"1": guarded, "2": open}, "h2", ""},
		"nothing filtered": {"2", map[string]hostReport{"1": {}, "2": {}}, "", ""},
		"no leader":        {"", map[string]hostReport{"1": guarded}, "", noQuorum},
		"leader refuses": {"2",
			map[string]hostReport{"1": guarded, "2": {Guarded: true, Door: api.Door{Why: "no port list yet"}}}, "",
			"h2, the leader: no port list yet"},
	} {
		lead, _ := v.Member(c.lead)
		got := pxeService(v, lead, c.reports)
		if strings.Join(got.OpenOn, ",") != c.open || got.Why != c.why || got.Guarded != (name != "nothing filtered") {
			t.Errorf("pxe, %s: %+v, want open on %q, %q", name, got, c.open, c.why)
		}
	}
	for name, c := range map[string]struct {
		lead        string
		reports     map[string]hostReport
		holder, why string
	}{
		"held":      {"2", map[string]hostReport{"1": ip(false, "it does not lead"), "2": ip(true, "")}, "h2", ""},
		"no leader": {"", map[string]hostReport{"1": ip(false, "")}, "", "no leader"},
		"leader cannot": {"2", map[string]hostReport{"1": ip(false, ""), "2": ip(false, "no interface \"br0\"")}, "",
			"h2, the leader: no interface \"br0\""},
		"leader silent": {"2", map[string]hostReport{"1": ip(false, "")}, "", "h2, the leader, does not answer this host"},
		"leader has none": {"2", map[string]hostReport{"1": ip(false, ""), "2": {}}, "",
			"h2, the leader, has no floating_ip in its configuration"},
	} {
		lead, _ := v.Member(c.lead)
		got := addressHolder(v, lead, c.reports)
		if got == nil || got.Address != "192.0.2.10" || got.Holder != c.holder || got.Why != c.why {
			t.Errorf("floating IP, %s: %+v, want %q, %q", name, got, c.holder, c.why)
		}
	}
	if got := addressHolder(v, membership.Member{ID: "2"}, map[string]hostReport{"1": {}, "2": {}}); got != nil {
		t.Errorf("no floating IP is configured: %+v", got)
	}
}

func TestReportIsBounded(t *testing.T) {
	large := hostReport{Guarded: true, Warnings: []api.Warning{{Code: "drift", Text: strings.Repeat("x", reportBytes)}}}
	var got hostReport
	if text := encodeReport(large); len(text) > reportBytes || json.Unmarshal(text, &got) != nil || !got.Guarded ||
		got.Warnings != nil {
		t.Errorf("%d bytes, %+v", len(text), got)
	}
}

// All hosts have other addresses at once: each peer says that the others look for
// it where it was.
func TestEveryAddressChangedAtOnce(t *testing.T) {
	id := datadir.Identity{ID: "id-1", Name: "h1", Address: "192.0.2.11:7350"}
	servers := []raftstore.Server{{ID: "id-1", Address: "id-1@192.0.2.1:7350"},
		{ID: "id-2", Address: "id-2@192.0.2.2:7350"}}
	if got := formerAddress(servers, id); got != "192.0.2.1:7350" {
		t.Errorf("looked for at %q", got)
	}
	servers[0].Address = "id-1@192.0.2.11:7350"
	if got := formerAddress(servers, id) + formerAddress(servers[1:], id); got != "" {
		t.Errorf("looked for at %q", got)
	}
	for name, c := range map[string]struct {
		status api.Status
		says   bool
	}{
		"no leader":           {seen("", 0, 5*time.Second, 5*time.Second), true},
		"no leader for long":  {seen("", 0, 2*time.Minute, 2*time.Minute), true},
		"an election":         {seen("", 0, 0, 0), false},
		"the others have one": {seen("h2", 0, 0, 0), false},
	} {
		var text strings.Builder
		for _, w := range clusterWarnings(c.status, "192.0.2.1:7350") {
			text.WriteString(w.Text + "\n" + w.Remedy + "\n")
		}
		const want = "the address of this host has changed, and the other peers still look for it at 192.0.2.1:7350"
		if strings.Contains(text.String(), want) != c.says {
			t.Errorf("%s: %s", name, text.String())
		}
	}
}
