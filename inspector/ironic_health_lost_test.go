package inspector

import (
	"testing"
	"time"
)

// What failed while Ironic was away is not judged by an Ironic that is back, and
// other peers are told of nothing that was only believed.
func TestReachRemembersALoss(t *testing.T) {
	inOffice(t, func(o *office) {
		began := time.Now()
		if o.reach.Proven() || o.reach.LostSince(began) {
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
			o.room.met("ping", c.meets)
			_ = o.reach.Check(o.ctx) // the rest tells
			if o.reach.Proven() != c.proven || o.reach.LostSince(began) != c.lost {
				t.Errorf("meeting %v: proven %v, lost %v", c.meets, o.reach.Proven(), o.reach.LostSince(began))
			}
		}
		time.Sleep(time.Second) // in a bubble
		if o.reach.LostSince(time.Now()) {
			t.Error("it is back for a second")
		}
	})
}
