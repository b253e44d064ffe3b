//go:build e2e

package labtest

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/testenv"
)

// quickStartMAC is the card whose document the quick starts of README.md post.
const quickStartMAC = "52:54:00:ab:00:01"

// TestIronic39QuickStart pastes README.md's quick start for Ironic 33 and later, on a host of its
// own, with IRONIC as that of Ironic 39: the peer that leads is killed, and Ironic finishes the
// inspection of the machine once, with the document that was posted.
func TestIronic39QuickStart(t *testing.T) {
	ironic := openstack.StartIronic39(t, "")
	l := NewHosts(t)
	door := wiretap.New(t, ironic.Addr).Door("quick start", net.JoinHostPort(l.Gateway(), "0"))
	machines := ironic.Enroll(0, 1)
	m := machines[0]
	port := map[string]string{"node_uuid": m.UUID, "address": quickStartMAC}
	testenv.Must(t, ironic.Call("POST", "/v1/ports", port, nil))
	ironic.Inspect(machines)

	const ends = "trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n"
	paste := l.net.Host(1).Command("bash", "-euo", "pipefail", "-c", ends+quickStart(t, "--inspection ironic"))
	paste.Dir = t.TempDir()
	paste.Env = append(os.Environ(), "IRONIC=http://"+door,
		"PATH="+filepath.Dir(os.Getenv(BinaryEnv))+string(filepath.ListSeparator)+os.Getenv("PATH"))
	var said strings.Builder
	paste.Stdout, paste.Stderr = &said, &said
	run, err := program.Start(paste)
	testenv.Must(t, err)
	if err := run.Wait(growLimit); err != nil || run.Code != 0 {
		err = errors.Join(err, run.End(syscall.SIGKILL, electLimit))
		t.Fatalf("the quick start ends with %d: %v\n%s", run.Code, err, said.String())
	}
	t.Log(said.String())
	ironic.WaitState(machines, "manageable")
	mac, err := ironic.Inventory(m.UUID)
	if n := ironic.Finished(m.UUID); err != nil || mac != quickStartMAC || n != 1 {
		t.Errorf("once: Ironic has finished %d inspections, and has the inventory of %q (%v)", n, mac, err)
	}
	if !strings.Contains(said.String(), "taken") {
		t.Error("the quick start shows no document that Ironic has taken")
	}
}

// quickStart is the block of README.md that has a text.
func quickStart(t *testing.T, with string) string {
	t.Helper()
	const page = "README.md"
	text, err := os.ReadFile(filepath.Join("..", "..", page))
	testenv.Must(t, err)
	d, err := parse(page, string(text))
	testenv.Must(t, err)
	for _, s := range d.steps {
		if strings.Contains(s.script, with) {
			return s.script
		}
	}
	t.Fatalf("no block of %s has %q", page, with)
	return ""
}
