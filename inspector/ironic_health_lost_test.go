package inspector

import (
	"testing"
	"time"
)

// What failed while Ironic was away is not judged by an Ironic that is back, and
// other peers are told of nothing that was only believed.
func TestReachRemembersALoss(t *testing.T) {
	inRig(t, func(o *rig) {
		began := time.Now()
		if o.health.Proven() || o.health.LostSince(began) {
			t.Error("nobody has asked yet")
		}
		for _, c := range []struct {
			meets  error
			proven bool
			lost   bool // since the beginning
		}{
			{nil, true, false},
			{away(), false, true},
			{nil, true, true},
		} {
			time.Sleep(time.Second) // in a bubble
			o.ironic.met("ping", c.meets)
			_ = o.health.Check(o.ctx) // the rest tells
			if o.health.Proven() != c.proven || o.health.LostSince(began) != c.lost {
				t.Errorf("meeting %v: proven %v, lost %v", c.meets, o.health.Proven(), o.health.LostSince(began))
			}
		}
		time.Sleep(time.Second) // in a bubble
		if o.health.LostSince(time.Now()) {
			t.Error("it is back for a second")
		}
	})
}
