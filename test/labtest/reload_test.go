//go:build e2e

package labtest

import (
	"fmt"
	"os"
	"path/filepath"
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
	write := func(p *Peer, text string) {
		t.Helper()
		if err := os.WriteFile(p.Config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.furnish = func(p *Peer) {
		p.Config = filepath.Join(l.dir, p.Name+".yaml")
		write(p, usual)
	}
	l.Trio("a", "b", "c")
	told := func(want string) {
		t.Helper()
		l.Eventually(15*time.Second, "every status tells it: "+want, func() error {
			for _, p := range l.Peers {
				s, err := p.Status()
				if err != nil {
					return err
				}
				text := ""
				for _, w := range s.Warnings {
					if w.Code == "config_differs" {
						text = w.Text
					}
				}
				if !strings.Contains(text, want) || want == "" && text != "" {
					return fmt.Errorf("%s says %q", p.Name, text)
				}
			}
			return nil
		})
	}
	told("")
	b := l.Peers[1]
	write(b, strings.Replace(usual, "1h", "2h", 1))
	b.signal(syscall.SIGHUP)
	told("b differs from a, c: inspection.report_expiry")
	if out := l.Peers[0].Trivet("doctor", "--check", "config", l.Peers[0].On()); !strings.Contains(out.Out, b.Config+":1 write 'report_expiry: 1h'") {
		t.Errorf("doctor says %s%s", out.Out, out.Err)
	}
	write(b, usual)
	b.signal(syscall.SIGHUP)
	told("")
}
