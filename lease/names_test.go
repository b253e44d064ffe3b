package lease

import (
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/leases"
)

// An election is configured by the names that the log takes for leases, and by no
// others: the two rules stand in packages that do not import each other.
func TestNamesOfElectionsAreNamesOfLeases(t *testing.T) {
	for _, name := range []string{
		"a", "a-b.c", "0", strings.Repeat("a", 253), strings.Repeat("a", 254), "", "A", "a_b", "-a", "a-", ".a", "a.", "a b",
		"a/b", "a..b",
	} {
		_, err := config.Load(config.Sources{HostName: "h1",
			Flags: map[string]string{"elector.listen": "lease:" + name, "lease.enabled": "true"}})
		if taken := (leases.Delete{Name: name}).Validate(); (err == nil) != (taken == nil) {
			t.Errorf("%q is configured: %v; as a lease: %v", name, err, taken)
		}
	}
}
