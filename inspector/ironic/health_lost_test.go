package ironic_test

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/inspecttest"
)

// What failed while Ironic was away is not judged by an Ironic that is back, and
// other peers are told of nothing that was only believed.
func TestReachRemembersALoss(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		began := time.Now()
		if o.Health.Proven() || o.Health.LostSince(began) {
			t.Error("nobody has asked yet")
		}
		for _, c := range []struct {
			meets  error
			proven bool
			lost   bool // since the beginning
		}{
			{nil, true, false},
			{inspecttest.Away(), false, true},
			{nil, true, true},
		} {
			time.Sleep(time.Second) // in a bubble
			o.Ironic.Met("ping", c.meets)
			_ = o.Health.Check(o.Ctx) // the rest tells
			if o.Health.Proven() != c.proven || o.Health.LostSince(began) != c.lost {
				t.Errorf("meeting %v: proven %v, lost %v", c.meets, o.Health.Proven(), o.Health.LostSince(began))
			}
		}
		time.Sleep(time.Second) // in a bubble
		if o.Health.LostSince(time.Now()) {
			t.Error("it is back for a second")
		}
	})
}
