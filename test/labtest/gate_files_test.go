//go:build e2e

package labtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGateByDnsmasq kills leaders whose lists are files for dnsmasq. The files of
// a dead host go on letting machines in; what shuts it is the lease.
func TestGateByDnsmasq(t *testing.T) {
	t.Parallel()
	g := newGate(t, "dnsmasq")
	g.Introspect(g.machines[:1])
	g.allowed = g.boot(t, g.machines[0])
	for range 2 {
		g.strike("SIGKILL", bootLimit, func(p *Peer) {
			p.Kill9()
			open, err := os.ReadFile(filepath.Join(g.hostsDir(p.Host), g.machines[0].MAC))
			if err != nil || strings.Contains(string(open), ",ignore") {
				t.Errorf("the dead host's file does not let the machine in: %q (%v)", open, err)
			}
		}, (*Peer).Start)
	}
	g.sum(t)
}
