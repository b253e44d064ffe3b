package failover

import (
	"errors"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// A guard rail that is taken away while a kube node is dead lets its remediation
// begin, and one that is put up holds the next one back, under one leadership.
func TestGuardRailsAreReloaded(t *testing.T) {
	inWorld(t, 3, 4, func(w *world) {
		narrow := safe()
		narrow.Guard.MinHealthy = percent(100)
		h := w.lead("h1", narrow, 0, 0)
		defer h.leave()
		w.pass(10 * time.Second)
		w.cutPower("n1")
		w.pass(5 * time.Minute)
		if n := len(w.remediations("n1")); n > 0 {
			t.Fatalf("%d remediations where all kube nodes must be healthy", n)
		}
		h.c.Renew(safe())
		w.until("renewed-guard: a remediation begins", 10*time.Minute,
			func() bool { return w.state("n1") > kubestate.RemFencing })
		w.until("it ends its deeds", 10*time.Minute, func() bool { return w.count("delete", "n1") > 0 })
	})
}

// What work was begun by stays.
func TestWhatIsNotReloaded(t *testing.T) {
	first := safe()
	c := NewController(ControllerOptions{Settings: first})
	next := safe()
	next.Mode, next.DryRun = ModeNooBaa, true
	next.Probe.Misses, next.NooBaa.Namespace = 99, "elsewhere"
	next.Remedy.Timeout, next.Remedy.Retries, next.Remedy.RetryInterval = time.Hour, 99, time.Hour
	next.Remedy.PowerOn, next.Guard.NodeRate, next.Detection.LeaseAge = true, 9, time.Minute
	c.Renew(next)
	got := c.Settings()
	if got.Mode != ModeSafe || got.DryRun || got.Probe != first.Probe || got.NooBaa.Namespace != "" ||
		got.Remedy.Timeout != first.Remedy.Timeout || got.Remedy.Retries != first.Remedy.Retries ||
		got.Remedy.RetryInterval != first.Remedy.RetryInterval {
		t.Errorf("renewed in the middle of what was begun: %+v", got)
	}
	if !got.Remedy.PowerOn || got.Guard.NodeRate != 9 || got.Detection.LeaseAge != time.Minute {
		t.Errorf("not renewed: %+v", got)
	}
}

func TestOnlyTheLeaderSimulates(t *testing.T) {
	if _, err := NewController(ControllerOptions{}).Simulate("prod", "n1", ModeSafe); !errors.Is(err, ErrNotLeading) {
		t.Errorf("simulate: a peer that does not lead says %v", err)
	}
}
