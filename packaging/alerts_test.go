package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/trivet-ha/trivet/internal/testenv"
)

const (
	alertsFile  = "monitoring/trivet-alerts.yaml"
	runbookPage = "../docs/runbook.md"
	runbookFile = "/usr/share/doc/trivet/runbook.md" // in the packages
	runbookURL  = "https://github.com/trivet-ha/trivet/blob/main/docs/runbook.md"
	metricsPage = "../docs/metrics.md"
	scrapeEvery = 15 * time.Second
)

// alert is a rule of the file.
type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readAlerts(t *testing.T) []alert {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string  `yaml:"name"`
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var out []alert
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) < 30 {
		t.Fatalf("%s: only %d alerts were read", alertsFile, len(out))
	}
	return out
}

// promtool checks rules as Prometheus reads them.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		testenv.Missing(t, "it needs promtool (Debian's prometheus)")
	}
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

// TestAlertsAndRunbook: each alert says what an operator needs, and has its
// paragraph; no paragraph is left of one that is gone.
func TestAlertsAndRunbook(t *testing.T) {
	promtool(t, "check", "rules", alertsFile)
	text, err := os.ReadFile(runbookPage)
	if err != nil {
		t.Fatal(err)
	}
	figures := readFigures(t)
	paragraphs := make(map[string]string)
	for _, part := range strings.Split(string(text), "\n## ")[1:] {
		if name, rest, _ := strings.Cut(part, "\n"); strings.HasPrefix(name, "Trivet") {
			paragraphs[name] = rest
		}
	}
	for _, a := range readAlerts(t) {
		if severity := a.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: severity %q; it is critical or warning", a.Alert, severity)
		}
		if a.Annotations["summary"] == "" || !strings.Contains(a.Annotations["description"], "{{ $") || strings.Contains(a.Annotations["summary"], "{{") {
			t.Errorf("%s: a summary without, and a description with values: %q", a.Alert, a.Annotations)
		}
		if want := runbookURL + "#" + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, want %q", a.Alert, a.Annotations["runbook_url"], want)
		}
		if want := runbookFile + "#" + strings.ToLower(a.Alert); a.Annotations["runbook_file"] != want {
			t.Errorf("%s: runbook_file is %q, want %q", a.Alert, a.Annotations["runbook_file"], want)
		}
		for _, word := range []string{"**Means**", "**Look**", "**Causes**", "**Do**"} {
			if !strings.Contains(paragraphs[a.Alert], word) {
				t.Errorf("docs/runbook.md: write a section \"## %s\" with %s", a.Alert, word)
			}
		}
		delete(paragraphs, a.Alert)
		figures.check(t, a.Alert, a.Expr)
	}
	for name := range paragraphs {
		t.Errorf("docs/runbook.md: there is no alert %s", name)
	}
}

// figure is a row of docs/metrics.md, which a test of app holds to the code.
type figure struct {
	kind   string
	labels map[string][]string // the values that there are; nil: any
}

type figuresOfPeers map[string]figure

var figureRow = regexp.MustCompile("(?m)^\\| `(trivet_[a-z0-9_]+)` \\| (\\w+) \\| ([^|]*) \\|")

func readFigures(t *testing.T) figuresOfPeers {
	t.Helper()
	text, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	out := make(figuresOfPeers)
	for _, row := range figureRow.FindAllStringSubmatch(string(text), -1) {
		f := figure{kind: row[2], labels: map[string][]string{"job": nil, "instance": nil}}
		for _, cell := range strings.Split(row[3], ";") {
			name, values, listed := strings.Cut(strings.TrimSpace(cell), ": ")
			name = strings.Trim(name, "`")
			f.labels[name] = nil
			if listed {
				f.labels[name] = strings.Split(values, ", ")
			}
		}
		if f.kind == "histogram" {
			f.labels["le"] = nil
		}
		out[row[1]] = f
	}
	if len(out) < 30 {
		t.Fatalf("%s: only %d figures were read", metricsPage, len(out))
	}
	return out
}

var (
	selector = regexp.MustCompile(`\b(trivet_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+) *(=~|!~|!=|=) *"([^"]*)"`)
)

// check wants an expression to ask for what there is: an alert on a figure or a
// value that was renamed is silent for ever.
func (f figuresOfPeers) check(t *testing.T, where, expr string) {
	t.Helper()
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		name := s[1]
		if base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum"); f[base].kind == "histogram" {
			name = base
		}
		known, ok := f[name]
		if !ok {
			t.Errorf("%s: docs/metrics.md has no %s", where, name)
		}
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			values, ok := known.labels[m[1]]
			if !ok {
				t.Errorf("%s: %s has no label %s", where, name, m[1])
			}
			for _, value := range strings.Split(m[3], "|") {
				if values != nil && !slices.Contains(values, value) {
					t.Errorf("%s: %s is never %q of %s, but one of %v", where, m[1], value, name, values)
				}
			}
		}
	}
}

// TestAlertsFire runs every alert against a fault, by Prometheus' own unit tests:
// it fires, nothing else does, and not before its time.
func TestAlertsFire(t *testing.T) {
	tests, tried := []any{}, make(map[string]bool)
	cases := alertCases()
	for name, c := range cases {
		end, err := time.ParseDuration(c.at)
		if err != nil {
			t.Fatal(err)
		}
		series := make(map[string]string)
		if !c.alone {
			series = healthySeries(int(end/scrapeEvery) + 4)
		}
		maps.Copy(series, c.series)
		var input []any
		for _, key := range slices.Sorted(maps.Keys(series)) {
			input = append(input, map[string]any{"series": key, "values": series[key]})
		}
		var exprs []any
		add := func(at string, firing map[string]int) {
			samples := []any{}
			for _, alert := range slices.Sorted(maps.Keys(firing)) {
				samples = append(samples, map[string]any{"labels": fmt.Sprintf(`{alertname=%q}`, alert), "value": firing[alert]})
			}
			exprs = append(exprs, map[string]any{"expr": `count by (alertname) (ALERTS{alertstate="firing"})`, "eval_time": at, "exp_samples": samples})
		}
		if c.quiet != "" {
			add(c.quiet, nil)
		}
		add(c.at, c.fires)
		for alert := range c.fires {
			tried[alert] = true
		}
		tests = append(tests, map[string]any{"name": name, "interval": "15s", "input_series": input, "promql_expr_test": exprs})
	}
	for _, a := range readAlerts(t) {
		if !tried[a.Alert] {
			t.Errorf("no case of alertCases lets %s fire", a.Alert)
		}
	}
	rules, err := filepath.Abs(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	// JSON is YAML, too.
	text, err := json.MarshalIndent(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "30s", "tests": tests}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cases.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "test", "rules", file)
}

// TestAlertTexts: what an operator reads at three in the morning, in full.
func TestAlertTexts(t *testing.T) {
	promtool(t, "test", "rules", "monitoring/texts_test.yaml")
}
