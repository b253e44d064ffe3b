package host

import (
	"log/slog"
	"testing"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
)

// TestAddressThatCannotBeGated has other hosts wait until its kernel has removed it, late
// as that may be; one that is gated costs them nothing.
func TestAddressThatCannotBeGated(t *testing.T) {
	for _, ip := range []string{"192.0.2.10", "2001:db8::10"} {
		a, err := ungated(config.FloatingIP{Address: ip, Interface: "site0"}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if lease, slack := a.Lease(); lease == nil || slack != 0 {
			t.Errorf("late-address: %s with a gate: lease %v, others wait for %v more", ip, lease, slack)
		}
		a.gate = nil
		if lease, slack := a.Lease(); lease != nil || slack != firewall.LateAddress {
			t.Errorf("late-address: %s without a gate: lease %v, others wait for %v more", ip, lease, slack)
		}
	}
}
