package app

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

// metricsPage is what operators read about the figures.
const metricsPage = "../docs/metrics.md"

// openLabels have values that nobody can list beforehand; the page lists those
// of all others, and the alerts are held to that list.
var openLabels = []string{"peer", "version", "cluster", "device", "code", "receiver"}

// figuresPeer is a cluster of one peer that has every figure there is: it looks
// after kube nodes and components, sends events, asks Keystone, and was asked.
func figuresPeer(t *testing.T) *Peer {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	signing := filepath.Join(t.TempDir(), "signing")
	if err := os.WriteFile(signing, []byte(receiverSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	srv := apiServer(t)
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: %q}}], users: [{name: a, user: {}}]}`, srv.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	peer := kubePeer(t, srv, "haconfig.kubeconfigs", "prod="+kubeconfig, "haconfig.listen", "127.0.0.1:0",
		"api.ramdisk_listen", "127.0.0.1:0",
		"api.auth_strategy", "keystone", "api.keystone.auth_url", "http://127.0.0.1:1/v3",
		"api.keystone.username", "trivet", "api.keystone.password_file", secret, "backup.directory", t.TempDir(),
		"events.receivers", "cmdb=http://127.0.0.1:1/", "events.secrets", "cmdb="+signing)
	judged(t, peer)
	for _, path := range []string{"/v1", "/v1/continue"} {
		answer, err := http.Get(peer.APIURL() + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return peer
}

// TestMetricsPage holds docs/metrics.md to what a peer registers, both ways: each
// figure has one row, which says what the code says, and no row is left over.
func TestMetricsPage(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a peer")
	}
	peer := figuresPeer(t)
	families, err := peer.figures.Gather()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `(trivet_[a-z0-9_]+)` \\|.*$").FindAllStringSubmatch(string(text),
		-1) {
		if rows[row[1]] != "" {
			t.Errorf("docs/metrics.md has two rows of %s", row[1])
		}
		rows[row[1]] = row[0]
	}
	all := registered(t, peer.figures.Registry, families)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if want := all[name]; rows[name] != want {
			t.Errorf("docs/metrics.md: write this row of %s (there is: %q), in the section it belongs to:\n%s", name, rows[name],
				want)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf(
			"docs/metrics.md has a row of %s, which no peer registers: take it out there, in packaging/monitoring and in docs/runbook.md",
			name)
	}
	lint(t, families)
	for name, least := range map[string]uint64{"trivet_raft_commit_seconds": 1, "trivet_api_request_seconds": 2} {
		if got := observed(families, name); got < least {
			t.Errorf("%s has %d observations, want at least %d", name, got, least)
		}
	}
}

// observed counts what a histogram was told, over all its labels.
func observed(families []*dto.MetricFamily, name string) (count uint64) {
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				count += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return count
}

// lint wants what promtool would: units and suffixes as Prometheus advises.
func lint(t *testing.T, families []*dto.MetricFamily) {
	t.Helper()
	problems, err := promlint.NewWithMetricFamilies(
		slices.DeleteFunc(slices.Clone(families),
			func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "trivet_") })).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s (prometheus.io/docs/practices/naming)", p.Metric, p.Text)
	}
}

var descText = regexp.MustCompile(
	`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), unit: ".*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// registered are the rows of all figures of ours, by name.
func registered(t *testing.T, r *prometheus.Registry, families []*dto.MetricFamily) map[string]string {
	t.Helper()
	gathered := make(map[string]*dto.MetricFamily)
	for _, f := range families {
		gathered[f.GetName()] = f
	}
	descs := make(chan *prometheus.Desc)
	go func() { r.Describe(descs); close(descs) }()
	out := make(map[string]string)
	for d := range descs {
		parts := descText.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("client_golang describes figures otherwise now: %s", d)
		}
		name, err := strconv.Unquote(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		help, err := strconv.Unquote(parts[2])
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "trivet_") {
			labels := labelNames(parts[3], parts[4])
			out[name] = fmt.Sprintf("| `%s` | %s | %s | %s |", name, kindOf(t, name, gathered[name]),
				labelCell(labels, gathered[name]), help)
		}
	}
	return out
}

// labelNames reads the two lists of a description.
func labelNames(constant, variable string) (names []string) {
	for _, pair := range strings.Split(constant, ",") {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	names = append(names, strings.Split(variable, ",")...)
	return slices.DeleteFunc(names, func(n string) bool { return n == "" })
}

// kindOf is the type. A counter that counts nothing yet is not gathered.
func kindOf(t *testing.T, name string, f *dto.MetricFamily) string {
	t.Helper()
	switch {
	case f != nil:
		return strings.ToLower(f.GetType().String())
	case strings.HasSuffix(name, "_total"):
		return "counter"
	}
	t.Errorf(
		"nothing is known of %s before something happens: let its values be there from the start, so that alerts see them",
		name)
	return "unknown"
}

// labelCell names the labels, and the values that were seen of those that have
// a list of them.
func labelCell(names []string, f *dto.MetricFamily) string {
	seen := make(map[string]map[string]bool)
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if seen[l.GetName()] == nil {
				seen[l.GetName()] = make(map[string]bool)
			}
			seen[l.GetName()][l.GetValue()] = true
		}
	}
	var cells []string
	for _, name := range names {
		cell := "`" + name + "`"
		if values := seen[name]; values != nil && !slices.Contains(openLabels, name) {
			cell += ": " + strings.Join(slices.Sorted(maps.Keys(values)), ", ")
		}
		cells = append(cells, cell)
	}
	return strings.Join(cells, "; ")
}
