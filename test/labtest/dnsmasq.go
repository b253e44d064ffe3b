//go:build e2e

package labtest

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// dnsmasq runs one on the host until the test ends, with its own files in a directory. It must not
// end by itself. If the test fails, the end of what it wrote is shown.
func (h *Host) dnsmasq(dir string, words ...string) *program.Process {
	t := h.net.t
	t.Helper()
	testenv.Must(t, os.MkdirAll(dir, 0o755))
	file := func(name string) string { return filepath.Join(dir, name) }
	var server *program.Process
	t.Cleanup(func() {
		if server != nil && server.Code != 0 && server.Status.Signal() != syscall.SIGKILL {
			t.Errorf("dnsmasq of host %d ended with %d", h.number, server.Code)
		}
		if text, err := os.ReadFile(file("log")); t.Failed() {
			t.Logf("dnsmasq of host %d: %v\n%s", h.number, err, program.Tail(string(text), 40))
		}
	})
	server = program.Run(t, h.Command("dnsmasq", append([]string{"--keep-in-foreground", "--user=root", "--group=root",
		"--dhcp-leasefile=" + file("leases"), "--pid-file=" + file("pid"), "--log-facility=" + file("log")}, words...)...),
		syscall.SIGTERM)
	return server
}
