package kube

import (
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/failover"
)

// heard gathers what memory tells of Leases.
type heard struct{ renewals []failover.Renewal }

func (*heard) Node(failover.Node)                     {}
func (*heard) NodeGone(string, string)                {}
func (h *heard) Renewed(_ string, r failover.Renewal) { h.renewals = append(h.renewals, r) }

// Whether a Lease went back can be told by what is told of it: its version, and whether
// the storage has it.
func TestLeasesSayTheirVersion(t *testing.T) {
	h := &heard{}
	m := memory{seen: h, synced: func() {}, uids: map[string]string{}}
	of := func(version string, second int64) lease { return leaseOf(leaseAt("a", version, time.Unix(second, 0))) }
	m.leases([]lease{of("10", 1)})
	m.renewed(of("12", 3))
	m.renewed(of("13", 3))         // another field
	m.renewed(of("11", 2))         // late
	m.leases([]lease{of("4", 1)})  // etcd was restored
	m.leases([]lease{of("4", 1)})  // and listed again
	m.renewed(of("no number", 50)) // of a storage of another kind
	want := []failover.Renewal{
		{At: "1970-01-01T00:00:01.000000Z", Version: 10, Stored: true},
		{At: "1970-01-01T00:00:03.000000Z", Version: 12},
		{At: "1970-01-01T00:00:02.000000Z", Version: 11},
		{At: "1970-01-01T00:00:01.000000Z", Version: 4, Stored: true},
		{At: "1970-01-01T00:00:50.000000Z"},
	}
	if !slices.Equal(h.renewals, want) {
		t.Errorf("lease-version: told %+v, want %+v", h.renewals, want)
	}
}
