//go:build e2e

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
)

const scrapeEvery = 15 * time.Second

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

// TestRulesAreTaken lets Prometheus read the alerts, and what the panels of the
// dashboard ask.
func TestRulesAreTaken(t *testing.T) {
	promtool(t, "check", "rules", alertsFile)
	var rules []any
	readDashboard(t).asked(func(_ string, target panelTarget) {
		label := map[string]string{"panel": strconv.Itoa(len(rules))} // none twice, which promtool reports
		rules = append(rules, map[string]any{"record": "panel:expr", "expr": target.promQL(), "labels": label})
	})
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "panels.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
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
			exprs = append(exprs, map[string]any{"expr": `count by (alertname) (ALERTS{alertstate="firing"})`, "eval_time": at,
				"exp_samples": samples})
		}
		if c.quiet != "" {
			add(c.quiet, nil)
		}
		add(c.at, c.fires)
		for alert := range c.fires {
			tried[alert] = true
		}
		tests = append(tests, map[string]any{"name": name, "interval": "15s", "input_series": input,
			"promql_expr_test": exprs})
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
	text, err := json.MarshalIndent(
		map[string]any{"rule_files": []string{rules}, "evaluation_interval": "30s", "tests": tests}, "", " ")
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
