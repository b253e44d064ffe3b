package floatingip_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall/floatingip"
)

func TestNewNamesTheField(t *testing.T) {
	for _, tt := range []struct{ address, iface, want string }{
		{"192.0.2.10", "eth0", ""},
		{"2001:db8::10", "eth0", ""},
		{"::ffff:192.0.2.10", "eth0", ""},
		{"", "eth0", "floating_ip.address"},
		{"192.0.2.10/24", "eth0", "floating_ip.address"},
		{"127.0.0.1", "eth0", "floating_ip.address"},
		{"0.0.0.0", "eth0", "floating_ip.address"},
		{"255.255.255.255", "eth0", "floating_ip.address"},
		{"224.0.0.1", "eth0", "floating_ip.address"},
		{"169.254.1.1", "eth0", "floating_ip.address"},
		{"fe80::1", "eth0", "floating_ip.address"},
		{"2001:db8::10%eth0", "eth0", "floating_ip.address"},
		{"192.0.2.10", "", "floating_ip.interface"},
		{"192.0.2.10", "sixteen-letters-", "floating_ip.interface"},
	} {
		_, err := floatingip.New(config.FloatingIP{Address: tt.address, Interface: tt.iface})
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s on %s: %v", tt.address, tt.iface, err)
		case tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)):
			t.Errorf("%s on %q: %v, want %s named", tt.address, tt.iface, err, tt.want)
		}
	}
}

// absent is an address that no host has, on an interface that no host has.
func absent(t *testing.T) *floatingip.Address {
	t.Helper()
	a, err := floatingip.New(config.FloatingIP{Address: "192.0.2.10", Interface: "trivet-no-such"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestPutWantsWholeSeconds(t *testing.T) {
	for _, valid := range []time.Duration{-time.Second, 0, 999 * time.Millisecond, 1500 * time.Millisecond,
		11 * time.Second} {
		if err := absent(t).Put(t.Context(), valid); err == nil || !strings.Contains(err.Error(), "whole seconds") {
			t.Errorf("Put for %v: %v", valid, err)
		}
	}
}

func TestConflictBoundsTheWait(t *testing.T) {
	for _, wait := range []time.Duration{-time.Second, 0, 11 * time.Second} {
		if _, err := absent(t).Conflict(t.Context(), wait); err == nil || !strings.Contains(err.Error(), "not within") {
			t.Errorf("Conflict with a wait of %v: %v", wait, err)
		}
	}
}

// TestNothingIsDoneTooLate also hands in a context whose timer has not fired
// yet, as in a process that was stopped.
func TestNothingIsDoneTooLate(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx  context.Context
		want error
	}{{over, context.Canceled}, {lateContext{t.Context()}, context.DeadlineExceeded}} {
		a := absent(t)
		_, givenErr := a.Given(tt.ctx)
		_, conflictErr := a.Conflict(tt.ctx, time.Second)
		for call, err := range map[string]error{
			"Put": a.Put(tt.ctx, time.Second), "Remove": a.Remove(tt.ctx), "Announce": a.Announce(tt.ctx),
			"Given": givenErr, "Conflict": conflictErr,
		} {
			if !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", call, err, tt.want)
			}
		}
	}
}

// lateContext has a deadline that has passed, and does not know it yet.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

func TestWhatThisHostDoesNotHave(t *testing.T) {
	a := absent(t)
	if given, err := a.Given(t.Context()); given || err != nil {
		t.Errorf("Given: %v, %v", given, err)
	}
	if err := a.Remove(t.Context()); err != nil {
		t.Errorf("Remove: %v", err)
	}
	for call, err := range map[string]error{"Put": a.Put(t.Context(), time.Second), "Announce": a.Announce(t.Context())} {
		if err == nil || !strings.Contains(err.Error(),
			`floating_ip.interface: this host has no interface "trivet-no-such"`) {
			t.Errorf("%s: %v, want the interface named", call, err)
		}
	}
}

func TestLoopbackIsRefused(t *testing.T) {
	a, err := floatingip.New(config.FloatingIP{Address: "192.0.2.10", Interface: "lo"})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Put(t.Context(), time.Second); err == nil ||
		!strings.Contains(err.Error(), "lo is no Ethernet interface") {
		t.Errorf("Put: %v, want the interface refused", err)
	}
}
