package host

import (
	"log/slog"
	"testing"

	"github.com/trivet-ha/trivet/config"
)

// TestAddressThatCannotBeGated has no lease, so that other hosts wait until its kernel has
// removed it, late as that may be.
func TestAddressThatCannotBeGated(t *testing.T) {
	for _, ip := range []string{"192.0.2.10", "2001:db8::10"} {
		a, err := ungated(config.FloatingIP{Address: ip, Interface: "site0"}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if a.Lease() == nil {
			t.Errorf("late-address: %s has no lease", ip)
		}
		a.gate = nil
		if lease := a.Lease(); lease != nil {
			t.Errorf("late-address: %s has lease %v without a gate", ip, lease)
		}
	}
}
