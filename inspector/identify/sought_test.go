package identify

import (
	"fmt"
	"testing"

	"github.com/trivet-ha/trivet/inspector/ironic"
)

// Of nodes at one address of a BMC, as a chassis has them, each is read until one waits for a document; where
// there are too many it is not said that none does.
func TestSoughtAmongNodesOfAChassis(t *testing.T) {
	for _, c := range []struct {
		nodes, waits int // which one waits; 0 for none
		want         Sought
		err          bool
	}{
		{maxAtBMC, maxAtBMC, Sought{BMC: true, Waits: true}, false}, {maxAtBMC, 0, Sought{BMC: true}, false},
		{maxAtBMC + 1, 2, Sought{BMC: true, Waits: true}, false}, {maxAtBMC + 1, 0, Sought{BMC: true}, true},
	} {
		s := newSite(t)
		for n := range c.nodes {
			k := at(fmt.Sprintf("33333333-3333-4333-8333-%012d", n), "", nil, bmc1)
			if n+1 == c.waits {
				k.Provision = ironic.InspectWait
			}
			s.nodes = append(s.nodes, k)
		}
		got, err := s.search().Sought(t.Context(), machine(mac1, bmc1, ""))
		if got != c.want || (err != nil) != c.err {
			t.Errorf("sought-by-bmc: of %d nodes, of which number %d waits: %+v, %v", c.nodes, c.waits, got, err)
		}
	}
}
