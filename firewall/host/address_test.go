package host

import "testing"

// TestAddressThatCannotBeGated has no lease, so that other hosts wait until its kernel has
// removed it, late as that may be.
func TestAddressThatCannotBeGated(t *testing.T) {
	if (&Address{gate: new(gate)}).Lease() == nil {
		t.Error("late-address: an address with a gate has no lease")
	}
	if lease := new(Address).Lease(); lease != nil {
		t.Errorf("late-address: without a gate it has lease %v", lease)
	}
}
