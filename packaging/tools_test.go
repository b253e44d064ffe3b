//go:build e2e

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
)

// TestUnitsAreHardened asks systemd what the units leave open; 25 is 2.5 of 10.
func TestUnitsAreHardened(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		testenv.Missing(t, "it needs systemd-analyze")
	}
	for _, unit := range []string{"files/trivet.service", "files/trivet-firewall.service"} {
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=25", "--no-pager",
			unit).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
	}
}

// TestDpkgReadsTheChangelog: its parser has nothing to say against it.
func TestDpkgReadsTheChangelog(t *testing.T) {
	if _, err := exec.LookPath("dpkg-parsechangelog"); err != nil {
		testenv.Missing(t, "it needs dpkg-parsechangelog (Debian's dpkg-dev)")
	}
	_, sections := ownChangelog(t)
	path := t.TempDir() + "/changelog"
	if err := os.WriteFile(path, []byte(debianChangelog(sections, "0.1.0+x", time.Now())), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("dpkg-parsechangelog", "--all", "-S", "Version", "-l", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), "warning") {
		t.Errorf("dpkg-parsechangelog: %v\n%s", err, out)
	}
}

// TestShellReadsTheWorkflows parses the commands of the public CI.
func TestShellReadsTheWorkflows(t *testing.T) {
	for _, name := range []string{"ci", "release"} {
		check := exec.Command("bash", "-n")
		check.Stdin = strings.NewReader(workflowCommands(t, name))
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s.yml: %v\n%s", name, err, out)
		}
	}
}
