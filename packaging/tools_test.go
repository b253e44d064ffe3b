//go:build e2e

package main

import (
	"fmt"
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

// TestServerOfAnotherNameWaits does as the unit says for a DHCP server of another name, and asks systemd in which order
// it starts the two, and whether it does so when the filter cannot be put in place.
func TestServerOfAnotherNameWaits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		testenv.Missing(t, "it needs systemd-analyze")
	}
	root := t.TempDir()
	units, vendor := root+"/etc/systemd/system", root+"/usr/lib/systemd/system"
	text, err := os.ReadFile("files/trivet-firewall.service")
	if err != nil {
		t.Fatal(err)
	}
	steps := "set -eu\n"
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "#   "); ok && !strings.HasPrefix(command, "systemctl ") {
			steps += strings.NewReplacer("NAME", "site-dhcp", " /", " "+root+"/").Replace(command)
		}
	}
	for from, to := range map[string]string{"trivet-firewall.service": units + "/trivet-firewall.service",
		"dnsmasq.conf": vendor + "/dnsmasq.service.d/trivet.conf"} {
		steps = fmt.Sprintf("install -D -m 644 files/%s %s\n%s", from, to, steps)
	}
	steps += fmt.Sprintf("printf '[Service]\\nExecStart=/bin/true\\n' > %s/site-dhcp.service\n", units)
	if out, err := exec.Command("sh", "-c", steps).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, steps)
	}
	analyze := exec.Command("systemd-analyze", "verify", "--man=no", "site-dhcp.service")
	analyze.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+units, "SYSTEMD_LOG_LEVEL=debug")
	out, _ := analyze.CombinedOutput() // the targets are not there, which it says, too
	for _, want := range []string{"Requires: trivet-firewall.service", "After: trivet-firewall.service"} {
		if !strings.Contains(string(out), "\t"+want) {
			t.Errorf("server-waits: systemd does not say %q of it:\n%s\nafter\n%s", want, out, steps)
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
