package health

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
)

// TestWarningCodes holds the list of warnings to the source, both ways.
func TestWarningCodes(t *testing.T) {
	var sources []string
	for _, pattern := range []string{"*.go", "../*.go", "../admin/*.go"} { // some parts of a peer warn by themselves
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, files...)
	}
	written := regexp.MustCompile(`\b(?:add\(|Code: )"([a-z_]+)",\s`)
	var found []string
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range written.FindAllStringSubmatch(string(source), -1) {
			found = append(found, match[1])
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if got := warningCodes(); !slices.Equal(got, found) {
		t.Errorf("warningCodes has %v,\nthe source %v", got, found)
	}
}

func TestWarningsAreFigures(t *testing.T) {
	shown := []api.Warning{{Code: "backup_old"}, {Code: "restart_needed"}}
	c := warningFigures(func() []api.Warning { return shown })
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(families, err)
	}
	got := make(map[string]float64)
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
	}
	if len(got) != len(warningCodes()) || got["backup_old"] != 1 || got["restart_needed"] != 1 || got["maintenance"] != 0 {
		t.Errorf("warnings-are-figures: %v", got)
	}
}
