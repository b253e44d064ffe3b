//go:build e2e

package pxe

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// TestConfigIsTaken lets dnsmasq read it.
func TestConfigIsTaken(t *testing.T) {
	program, err := exec.LookPath("dnsmasq")
	if err != nil {
		program = "/usr/sbin/dnsmasq" // on the PATH of root alone
	}
	if _, err := os.Stat(program); err != nil {
		testenv.Missing(t, "dnsmasq is not installed")
	}
	four, six := exampleServer(), exampleServer()
	four.Addresses, four.Pools, four.Router = four.Addresses[:1], four.Pools[:1], netip.MustParseAddr("192.0.2.254")
	six.Addresses, six.Pools = six.Addresses[1:], six.Pools[1:]
	bound := exampleServer()
	bound.BindInterfaces, bound.Without, bound.Batch = true, Files(), 5000
	byHTTP := exampleServer()
	byHTTP.LoaderURLs = []string{"http://192.0.2.5/boot", "http://[2001:db8::5]/boot"}
	for name, s := range map[string]Server{"both": exampleServer(), "IPv4": four, "IPv6": six, "bound": bound,
		"HTTP": byHTTP} {
		text, err := s.Config()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "dnsmasq.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(program, "--test", "--conf-file="+file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s\n%s", name, err, out, text)
		}
	}
}
