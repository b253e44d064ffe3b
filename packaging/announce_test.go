package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestAnnounce: the release workflow publishes the version that CHANGELOG.md begins
// with, with its changes, and nothing while changes are unreleased.
func TestAnnounce(t *testing.T) {
	const released = "# Changelog\n\n## v0.2.0, 2027-01-31\n\nA topic.\n\n- One\n  change.\n\n## v0.1.0, 2026-11-21\n\n- The first one.\n"
	for _, c := range []struct{ text, version, notes string }{
		{released, "v0.2.0\n", "A topic.\n\n- One\n  change.\n"},
		{changelogText, "", ""},
	} {
		root := t.TempDir()
		notes := filepath.Join(root, "notes.md")
		if err := os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		var version strings.Builder
		if err := announce(root, notes, &version); err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile(notes)
		if version.String() != c.version || string(written) != c.notes || errors.Is(err, os.ErrNotExist) != (c.notes == "") {
			t.Errorf("version %q, notes %q, %v; want %q, %q", version.String(), written, err, c.version, c.notes)
		}
	}
}

// workflowCommands are what a workflow of the public CI runs.
func workflowCommands(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../.github/workflows/" + name + ".yml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Run string }
		}
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatalf("%s.yml: %v", name, err)
	}
	var runs []string
	for _, job := range workflow.Jobs {
		for _, step := range job.Steps {
			runs = append(runs, step.Run)
		}
	}
	return strings.Join(runs, "\n")
}

// TestWorkflows: the workflows of the public CI are YAML and call what they should:
// .ci/run with stages that it has.
func TestWorkflows(t *testing.T) {
	script, err := os.ReadFile("../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	stages := strings.Fields(string(regexp.MustCompile(`(?m)^readonly stages="(.*)"$`).FindSubmatch(script)[1]))
	for name, call := range map[string]string{"ci": ".ci/run", "release": "make package"} {
		all := workflowCommands(t, name)
		_, called, found := strings.Cut(all, call)
		if !found {
			t.Errorf("%s.yml does not call %q", name, call)
		}
		if name != "ci" {
			continue
		}
		called, _, _ = strings.Cut(called, "\n")
		for _, stage := range strings.Fields(called) {
			if !slices.Contains(stages, stage) {
				t.Errorf("ci.yml names the stage %q; .ci/run has %q", stage, stages)
			}
		}
	}
}
