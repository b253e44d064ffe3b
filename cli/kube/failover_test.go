package kube

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/test/testwait"
)

func judged() admin.Failover {
	return admin.Failover{
		Leader: "h1", Mode: "safe",
		Clusters: []admin.KubeCluster{{Name: "prod", Nodes: 3, Synced: true},
			{Name: "test", Problem: "the API server has not answered for 12s"}},
		Pauses: []admin.FailoverPause{{Cluster: "test", By: "ann (uid 0)", Reason: "new switches", EndsIn: "1h0m0s"},
			{By: "bob"}},
		Nodes: []admin.KubeNode{
			{Cluster: "prod", Name: "w1", UID: "u1", Ready: "True", LeaseAgeMS: 3_240, Votes: admin.Votes{Answers: 3, Voters: 3},
				Would: "nothing", Why: []string{"it is alive"}, Kubelet: "10.0.0.1:10250"},
			{Cluster: "prod", Name: "w2", UID: "u2", Ready: "Unknown", LeaseAgeMS: 61_000,
				Votes: admin.Votes{Silent: 2, Voters: 3}, Would: "continue", Remediation: &admin.Remediation{State: "fencing"}},
			{Cluster: "prod", Name: "w3", UID: "u3", Ready: "True", LeaseAgeMS: 18_000, Votes: admin.Votes{Silent: 3, Voters: 3},
				Would: "power it off", Why: []string{"2 of 3 unhealthy", "paused\x1b[2J"}},
			{Cluster: "test", Name: "w1", UID: "u4", Ready: "True", Votes: admin.Votes{Voters: 3}, Would: "nothing",
				Why: []string{"the API server is silent"}},
		},
	}
}

func TestKubeNodesAreATable(t *testing.T) {
	got := printed(t, "table", func(on *term.Terminal) error { return printFailover(on, judged()) })
	want := `
CLUSTER  NODE  READY    LEASE  SILENT  STATE    WOULD         WHY NOT
prod     w1    True     3.2s   0 of 3  -        nothing       it is alive
prod     w2    Unknown  1m1s   2 of 3  fencing  continue      -
prod     w3    True     18s    3 of 3  -        power it off  2 of 3 unhealthy
test     w1    True     0s     0 of 3  -        nothing       the API server is silent
leader h1, mode safe
paused: cluster test, for 1h0m0s more, by ann (uid 0): new switches
paused: all clusters, until it is resumed, by bob
cluster test: the API server has not answered for 12s
`
	if got != strings.TrimPrefix(want, "\n") {
		t.Errorf("shown:\n%s\nwant:%s", got, want)
	}
	wide := printed(t, "wide", func(on *term.Terminal) error { return printFailover(on, judged()) })
	if !strings.Contains(wide, "2 of 3 unhealthy; paused") || strings.Contains(wide, "\x1b") ||
		!strings.Contains(wide, "10.0.0.1:10250") {
		t.Errorf("wide:\n%s", wide)
	}
	if got := printed(t, "name", func(on *term.Terminal) error { return printFailover(on, judged()) }); got !=
		"prod/w1\nprod/w2\nprod/w3\ntest/w1\n" {
		t.Errorf("names: %q", got)
	}
	for _, format := range []string{"json", "yaml"} {
		if got := printed(t, format,
			func(on *term.Terminal) error { return printFailover(on, judged()) }); !strings.Contains(got, "lease_age_ms") ||
			strings.Contains(got, "leader h1") {
			t.Errorf("%s: %s", format, got)
		}
	}
	loud := judged()
	loud.Mode, loud.DryRun, loud.Peers = "noobaa", true, []admin.PeerPlace{{Peer: "h2", Node: "prod/w1", By: "boot ID"}}
	got = printed(t, "table", func(on *term.Terminal) error { return printFailover(on, loud) })
	if !strings.Contains(got, "NOTHING IS FENCED") || !strings.Contains(got, "dry run") ||
		!strings.Contains(got, "\npeer h2 runs on prod/w1 (same boot ID)\n") {
		t.Errorf("noobaa, or where a peer runs, is not told: %s", got)
	}
}

func TestKubeNodeIsPicked(t *testing.T) {
	for text, want := range map[string]int{"w2": 0, "prod/w1": 0, "w1": term.ExitConflict, "w9": term.ExitNotFound,
		"test/w2": term.ExitNotFound, "": term.ExitNotFound} {
		cluster, name := splitNode(text)
		if _, err := pickNode(judged().Nodes, cluster, name); term.ExitOf(err) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func remediation(id uint64, node, state string, open bool) admin.Remediation {
	var r admin.Remediation
	text := `{"id":"` + string(rune('0'+id)) + `","cluster":"prod","node":"` + node + `","state":"` + state +
		`","began_at":"2026-01-02T03:04:05.000Z","since":"2026-01-02T03:04:06.000Z",` +
		`"reason":"silent","steps":[{"state":"intent","token":"7","at":"2026-01-02T03:04:05.000Z","peer":"h1","reason":"silent"},{"state":"fencing","token":"8","at":"2026-01-02T03:04:06.000Z","peer":"h1"}]}`
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		panic(err)
	}
	r.Open = open
	return r
}

func TestKubeNodeIsShownWithItsSteps(t *testing.T) {
	got := printed(t, "table", func(on *term.Terminal) error {
		return printKubeNode(on, judged().Nodes[2], []admin.Remediation{remediation(7, "w3", "fencing", true)})
	})
	want := `
node      prod/w3
ready     True, since -
lease     18s old
kubelet   -: silent to 3 of 3 voters, answers 0
would     power it off
why not   2 of 3 unhealthy
why not   paused [2J

remediation 7: fencing since 2026-01-02T03:04:06.000Z
  2026-01-02T03:04:05.000Z  intent    h1: silent
  2026-01-02T03:04:06.000Z  fencing   h1: -
`
	if got != strings.TrimPrefix(want, "\n") {
		t.Errorf("shown:\n%s\nwant:%s", got, want)
	}
}

func TestSimulationIsNumbered(t *testing.T) {
	s := admin.Simulation{Cluster: "prod", Node: "w1", Peer: "h1", Mode: "safe", Would: true,
		Devices: []string{"bmc", "ipmi"}, Delete: []string{"a/x", "b/y"},
		Keep: []admin.Kept{{Pod: "kube-system/proxy", Why: "a DaemonSet's"}}, Volumes: []string{"v1"},
		Budgets: []string{"a/pdb"}}
	got := printed(t, "table", func(on *term.Terminal) error { return printSimulation(on, s) })
	want := `
if prod/w1 died now, h1 would, in mode safe
  1. cordon it
  2. take its power by bmc, then ipmi, and see twice that it is off
  3. taint it out of service
  4. delete 2 pods: a/x, b/y
  5. wait until 1 volumes are detached: v1
keeps  kube-system/proxy: a DaemonSet's
budget a/pdb is exhausted: a second kube node with pods of it waits until this one's are moved
`
	if got != strings.TrimPrefix(want, "\n") {
		t.Errorf("shown:\n%s\nwant:%s", got, want)
	}
	s.Would, s.Why = false, []string{"paused"}
	if got := printed(t, "table", func(on *term.Terminal) error { return printSimulation(on, s) }); got !=
		"if prod/w1 died now, h1 would, in mode safe\n  1. do nothing: paused\n" {
		t.Errorf("shown:\n%s", got)
	}
}

// printed is what a command prints in a format.
func printed(t *testing.T, format string, print func(*term.Terminal) error) string {
	t.Helper()
	var out bytes.Buffer
	if err := print(&term.Terminal{Out: &out, Err: &out, Format: format}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// fakePeer answers on a socket as a peer would and keeps what it was asked.
type fakePeer struct {
	answers map[string]any // "METHOD path" → answer; *api.Error refuses

	mu    sync.Mutex
	asked []string // "METHOD path body"
}

func (f *fakePeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	f.asked = append(f.asked, r.Method+" "+r.URL.RequestURI()+" "+string(body))
	f.mu.Unlock()
	answer, known := f.answers[r.Method+" "+r.URL.Path]
	if !known {
		answer = &api.Error{Status: 404, Code: api.CodeNotFound, Message: "no such thing"}
	}
	if refused, ok := answer.(*api.Error); ok {
		w.WriteHeader(refused.Status)
		answer = api.ErrorBody{Error: refused}
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(err)
	}
}

// failoverRun runs one command against a peer and returns its code and both
// outputs.
func failoverRun(t *testing.T, peer *fakePeer, args ...string) (code int, out, talk string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: peer}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	defer func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		testwait.Receive(t, done, "the server ends")
	}()
	var stdout, stderr bytes.Buffer
	on := &term.Terminal{In: strings.NewReader(""), Out: &stdout, Err: &stderr,
		Env: []string{"SUDO_USER=ann", "USER=root"}}
	root := &cobra.Command{Use: "trivet", SilenceErrors: true, SilenceUsage: true}
	root.PersistentFlags().StringVarP(&on.Format, "output", "o", "table", "")
	root.AddCommand(Failover(on, term.OnSocket(socket)))
	term.Understand(root)
	root.SetArgs(append([]string{"failover"}, args...))
	err = root.ExecuteContext(t.Context())
	if err != nil {
		(&term.Terminal{Err: &stderr}).Complain(err)
	}
	code = term.ExitOf(err)
	return code, stdout.String(), stderr.String()
}

func TestFailoverCommands(t *testing.T) {
	answers := map[string]any{
		"GET /v1/failover": judged(),
		"GET /v1/failover/remediations": []admin.Remediation{remediation(9, "w2", "stuck", true),
			remediation(7, "w2", "recovered", false), remediation(5, "w1", "cancelled", false)},
		"POST /v1/failover/remediations/9/release": remediation(9, "w2", "fencing", true),
		"POST /v1/failover/remediations/5/release": remediation(5, "w1", "cancelled", false),
		"POST /v1/failover/pause":                  []admin.FailoverPause{{Cluster: "prod", By: "ann", EndsIn: "2h0m0s"}},
		"POST /v1/failover/resume":                 []admin.FailoverPause{},
		"GET /v1/failover/simulation/-/w1":         admin.Simulation{Cluster: "prod", Node: "w1", Why: []string{"paused"}},
		"GET /v1/failover/simulation/prod/w2":      admin.Simulation{Cluster: "prod", Node: "w2", Would: true},
		"GET /v1/failover/power/-/w1": []admin.FencePower{
			{Peer: "h1", Devices: []admin.DevicePower{{Device: "bmc", Power: "on", TookMS: 90}}}},
		"GET /v1/failover/power/-/w2": []admin.FencePower{
			{Peer: "h1", Devices: []admin.DevicePower{{Device: "bmc", Power: "unknown", Error: "timeout"}}},
			{Peer: "h2", Error: "away"}},
		"GET /v1/failover/power/-/w3": []admin.FencePower{{Peer: "h1"}},
		"POST /v1/failover/power/prod/w1": admin.FencePower{Peer: "h1",
			Devices: []admin.DevicePower{{Device: "bmc", Power: "off", Done: "off"}}},
		"POST /v1/failover/power/prod/refused-by-it": &api.Error{Status: 409, Code: api.CodeConflict, Message: "no"},
	}
	for _, test := range []struct {
		args  string
		code  int
		out   string // part of standard output
		talk  string // part of standard error
		asked string // part of the last question
	}{
		{"list", 0, "power it off", "", "GET /v1/failover "},
		{"show w2", 0, "remediation 9: stuck", "", ""},
		{"show w1", term.ExitConflict, "", "hint: write CLUSTER/NODE", ""},
		{"show w9", term.ExitNotFound, "", "hint: see 'trivet failover list'", ""},
		{"history", 0, "\n5   prod", "", "?limit=50 "},
		{"history w2 --limit 1 -o name", 0, "9\n", "", "remediations? "},
		{"history --limit -1", term.ExitUsage, "", "--limit -1", ""},
		{"history --stale", 0, "", "", "stale=1"},
		{"pause --for 2h --cluster prod --reason x", 0, "2h0m0s",
			"nothing is begun in cluster prod for 2h0m0s; a machine that is not off yet is not switched off",
			`{"cluster":"prod","for":"2h0m0s","by":"ann","reason":"x"}`},
		{"pause --for -1s", term.ExitUsage, "", "--for -1s", ""},
		{"resume", 0, "", "nothing is paused", `{"by":"ann"}`},
		{"resume -o json", 0, "[]", "", ""},
		{"release w2 --to fencing", 0, "", "prod/w2: fencing", `{"to":"fencing","by":"ann"}`},
		{"release w1 --to fencing", 0, "", "prod/w1: it may be fenced again", `{"to":"fencing","by":"ann"}`},
		{"release w1 --to cancelled", term.ExitNotFound, "", "no remediation of w1 is open", ""},
		{"release w9 --to fencing", term.ExitNotFound, "", "no remediation of w9 is open", ""},
		{"release w2", term.ExitUsage, "", "--to: it is fencing or cancelled", ""},
		{"simulate w1", term.ExitConflict, "do nothing: paused", "prod/w1 would not be remediated: paused", ""},
		{"simulate prod/w2", 0, "cordon it", "", ""},
		{"simulate w9", term.ExitNotFound, "", "no such thing", ""},
		{"test-fence w1", 0, "90ms", "", "GET /v1/failover/power/-/w1?all=1 "},
		{"test-fence w1 --local", 0, "", "", "GET /v1/failover/power/-/w1 "},
		{"test-fence w2", term.ExitFailed, "timeout", "2 of the answers are problems", ""},
		{"test-fence w3", term.ExitFailed, "", "no fence device is configured", ""},
		{"test-fence w1 --off", term.ExitUsage, "", "hint: 'trivet failover test-fence w1 --off --confirm w1'", ""},
		{"test-fence prod/w1 --off --confirm w2", term.ExitUsage, "", "the kube node is called w1", ""},
		{"test-fence prod/w1 --off --confirm w1 --device bmc", 0, "off", "", `{"power":"off","device":"bmc","confirm":"w1"}`},
		{"test-fence prod/refused-by-it --on --confirm refused-by-it", term.ExitConflict, "", "error: no", `"power":"on"`},
		{"test-fence w1 --on --off", term.ExitUsage, "", "write one of them", ""},
		{"test-fence w1 --device bmc", term.ExitUsage, "", "with --off or --on alone", ""},
		{"manifest", 0, "kind: ClusterRole\n", "", ""},
		{"manifest --namespace x --in-cluster", 0, "namespace: x\n", "", ""},
		{"manifest --namespace A", term.ExitUsage, "", "--namespace", ""},
		{"", term.ExitUsage, "", "which? One of", ""},
	} {
		peer := &fakePeer{answers: answers}
		code, out, talk := failoverRun(t, peer, strings.Fields(test.args)...)
		last := ""
		if n := len(peer.asked); n > 0 {
			last = peer.asked[n-1]
		}
		if code != test.code || !strings.Contains(out, test.out) || !strings.Contains(talk, test.talk) ||
			!strings.Contains(last, test.asked) {
			t.Errorf("%s: code %d, want %d; asked %q\n%s\n%s", test.args, code, test.code, last, out, talk)
		}
		if code != 0 && !strings.Contains(talk, "trivet: hint: ") {
			t.Errorf("%s: no hint: %s", test.args, talk)
		}
	}
}
