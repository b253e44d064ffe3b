package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	alertsFile  = "monitoring/trivet-alerts.yaml"
	runbookPage = "../docs/runbook.md"
	runbookFile = "/usr/share/doc/trivet/runbook.md" // in the packages
	runbookURL  = "https://github.com/trivet-ha/trivet/blob/main/docs/runbook.md"
	metricsPage = "../docs/metrics.md"
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

// TestAlertsAndRunbook: each alert says what an operator needs, and has its
// paragraph; no paragraph is left of one that is gone.
func TestAlertsAndRunbook(t *testing.T) {
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
		if a.Annotations["summary"] == "" || !strings.Contains(a.Annotations["description"], "{{ $") ||
			strings.Contains(a.Annotations["summary"], "{{") {
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
		if base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"),
			"_sum"); f[base].kind == "histogram" {
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
