package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
)

// TestExamplesPassTheCheck: what the example inventory of the Ansible role has for
// configuration is judged as 'trivet config check' judges it, and there is nothing to warn of.
func TestExamplesPassTheCheck(t *testing.T) {
	text, err := os.ReadFile("../contrib/ansible/inventory.example.yml")
	if err != nil {
		t.Fatal(err)
	}
	var inventory struct {
		Trivet struct {
			Vars struct {
				Config map[string]any `yaml:"trivet_config"`
			} `yaml:"vars"`
		} `yaml:"trivet"`
	}
	if err := yaml.Unmarshal(text, &inventory); err != nil {
		t.Fatal(err)
	}
	written, err := yaml.Marshal(inventory.Trivet.Vars.Config)
	if err != nil || len(inventory.Trivet.Vars.Config) < 3 {
		t.Fatalf("no configuration in the example: %s, %v", written, err)
	}
	examined(t, "inventory.example.yml", written)
}

// examined judges a whole example.
func examined(t *testing.T, name string, text []byte) {
	t.Helper()
	c, err := config.Load(config.Sources{File: name, Text: text, HostName: "h1"})
	if err != nil {
		t.Errorf("example-passes-the-check: %v\n%s", err, text)
		return
	}
	if err := c.CheckServe(); err != nil {
		t.Errorf("example-passes-the-check: %v", err)
	}
	for _, p := range options.Refused(c) {
		if p.Key != "floating_ip.interface" { // of a host
			t.Errorf("example-passes-the-check: %v", p)
		}
	}
	for _, w := range c.Warnings() {
		if w.Key != "ironic.endpoint" { // an example's Ironic may speak without TLS
			t.Errorf("example-passes-the-check: warning: %v", w)
		}
	}
}

// TestRoleLeavesRestartsToTheUpgrade: where a key waits for a restart, 'trivet config reload' ends with the exit code
// of that, by which the Ansible role must not fail: with any_errors_fatal the play would end on all hosts.
func TestRoleLeavesRestartsToTheUpgrade(t *testing.T) {
	text, err := os.ReadFile("../contrib/ansible/roles/trivet/handlers/main.yml")
	if err != nil {
		t.Fatal(err)
	}
	type handler struct {
		Command    string `yaml:"ansible.builtin.command"`
		Register   string `yaml:"register"`
		FailedWhen string `yaml:"failed_when"`
	}
	var handlers []handler
	if err := yaml.Unmarshal(text, &handlers); err != nil {
		t.Fatal(err)
	}
	want := handler{"trivet config reload", "trivet_reloaded",
		fmt.Sprintf("trivet_reloaded.rc not in [%d, %d]", term.ExitOK, term.ExitConflict)}
	if !slices.Contains(handlers, want) {
		t.Errorf("role-waits-for-the-upgrade: the handlers are %+v, want %+v", handlers, want)
	}
}

// TestRoleLooksWhereThePeerLives: a role that looks for the peer in one place and has it started from another founds a
// second cluster next to the first, once the first host of the group is installed anew.
func TestRoleLooksWhereThePeerLives(t *testing.T) {
	tasks, err := filepath.Glob("../contrib/ansible/roles/trivet/tasks/*.yml")
	if err != nil || len(tasks) < 5 {
		t.Fatalf("the role has %d files of tasks (%v)", len(tasks), err)
	}
	looks := 0
	for _, file := range tasks {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "/var/lib/trivet/") {
			t.Errorf("role-follows-data-dir: %s names /var/lib/trivet/, and data_dir may be elsewhere", file)
		}
		looks += strings.Count(string(text), `"{{ trivet_data_dir }}/peer"`)
	}
	if looks != 3 {
		t.Errorf("role-follows-data-dir: %d tasks look for the peer in trivet_data_dir, want 3", looks)
	}
}
