//go:build e2e

package main

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// TestElectorStartsRestricted runs the command of docs/elector.md's pod with what such a
// pod has: its user, no capability and none to be gained. A program that carries
// capabilities the kernel refuses, so that the one in the image carries none.
func TestElectorStartsRestricted(t *testing.T) {
	testenv.NeedRoot(t, "setpriv", "setcap")
	c := electorManifest(t).Spec.Containers[0]
	dir := t.TempDir()
	program := filepath.Join(dir, "trivet")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", program, "..").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for at := dir; at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		if out, err := exec.Command("chmod", "755", at).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	restricted := func() *exec.Cmd {
		words := append([]string{"--reuid", "950", "--regid", "950", "--clear-groups", "--bounding-set=-all",
			"--inh-caps=-all", "--no-new-privs", program}, c.Command[1:]...)
		for _, arg := range c.Args {
			if strings.HasPrefix(arg, "--http=") {
				arg = "--http=127.0.0.1:0"
			}
			words = append(words, arg)
		}
		cmd := exec.Command("setpriv", words...)
		cmd.Env = []string{"TRIVET_SERVER=http://127.0.0.1:9", "TRIVET_LOG_FORMAT=text"}
		return cmd
	}
	cmd := restricted()
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var talk strings.Builder
	lines, serving := bufio.NewScanner(said), false
	for !serving && lines.Scan() {
		talk.WriteString(lines.Text() + "\n")
		serving = strings.Contains(lines.Text(), "elector endpoint serving")
	}
	if !serving {
		t.Errorf("restricted: it does not start:\n%s", talk.String())
	}
	if err := cmd.Process.Kill(); err != nil && serving { // it has no cluster to release anything to
		t.Error(err)
	}
	_ = cmd.Wait() // it was killed
	if out, err := exec.Command("setcap", "cap_net_admin,cap_net_raw+ep", program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := restricted().CombinedOutput(); err == nil ||
		!strings.Contains(strings.ToLower(string(out)), "operation not permitted") {
		t.Errorf("a file with capabilities starts: %v: %s", err, out)
	}
}
