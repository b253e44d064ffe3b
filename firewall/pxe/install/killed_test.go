package install

import (
	"context"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/firewall/pxe"
)

// killedAt is the host on which the command dies as soon as it runs this verb of systemctl.
func (s *site) killedAt(verb string, run func(Host)) {
	h, done := s.host(), make(chan struct{})
	h.Run = func(ctx context.Context, name string, args ...string) (string, error) {
		if name == "systemctl" && args[0] == verb {
			runtime.Goexit()
		}
		return s.run(ctx, name, args...)
	}
	go func() { defer close(done); run(h) }()
	<-done
}

// TestKilledBeforeTheRestart: dnsmasq runs with the pools of before, and the next installation restarts
// it although the file is right; the one after that does not.
func TestKilledBeforeTheRestart(t *testing.T) {
	s := newSite(t)
	s.install(plan())
	p := plan()
	p.Server.Pools[0].Last = netip.MustParseAddr("192.0.2.148")
	s.killedAt("restart", func(h Host) { _, _ = h.Install(t.Context(), p) })
	for _, want := range [][]string{{"restart"}, nil} {
		s.ran = nil
		if r := s.install(p); !slices.Equal(s.ran, want) {
			t.Errorf("restart-owed: it ran %v, want %v:\n%s", s.ran, want, text(r))
		}
	}
	s.fail["systemctl restart"] = "no"
	s.killedAt("restart", func(h Host) { _, _ = h.Install(t.Context(), plan()) })
	s.ran = nil
	if _, err := s.host().Install(t.Context(), p); err == nil || !slices.Equal(s.ran, []string{"restart", "restart"}) {
		t.Errorf("restart-owed: a restart fails (%v), and it ran %v", err, s.ran)
	}
	s.ran = nil
	if r := s.install(plan()); !slices.Equal(s.ran, []string{"restart"}) {
		t.Errorf("restart-owed: after a failure it ran %v:\n%s", s.ran, text(r))
	}
}

// TestKilledBeforeTheStart: dnsmasq, which ran before the installation, runs again after an uninstallation
// that was killed is repeated, with the operator's file.
func TestKilledBeforeTheStart(t *testing.T) {
	s := newSite(t)
	s.put(pxe.ConfFile, "port=0\n")
	was, unit := s.tree(), s.unit
	p := plan()
	p.Force = true
	s.install(p)
	s.killedAt("start", func(h Host) { _, _ = h.Uninstall(t.Context(), pxe.Root, false) })
	s.uninstall()
	same(t, "start-owed", s.tree(), was)
	if s.unit != unit {
		t.Errorf("start-owed: dnsmasq was %+v and is %+v", unit, s.unit)
	}
}
