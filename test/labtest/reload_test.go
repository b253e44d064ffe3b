//go:build e2e

package labtest

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestConfigurationsThatDiffer changes one peer's file and tells it by SIGHUP:
// every peer's status names that peer and the key, until it is changed back.
func TestConfigurationsThatDiffer(t *testing.T) {
	t.Parallel()
	const usual = "inspection: {report_expiry: 1h}\n"
	l := New(t)
	l.furnish = func(p *Peer) { p.configure(usual) }
	l.Trio("a", "b", "c")
	told := func(want string) {
		t.Helper()
		l.Eventually(15*time.Second, "doctor tells it on every peer: "+want, func() error {
			for _, p := range l.Peers {
				out := p.Trivet("doctor", "--check", "config", p.On()).Out
				if !strings.Contains(out, want) || want == "" && out != "" {
					return fmt.Errorf("%s says %q", p.Name, out)
				}
			}
			return nil
		})
	}
	told("")
	b := l.Peers[1]
	b.configure(strings.Replace(usual, "1h", "2h", 1))
	b.signal(syscall.SIGHUP)
	told(b.Config + ":1 write 'report_expiry: 1h'")
	b.configure(usual)
	b.signal(syscall.SIGHUP)
	told("")
}
