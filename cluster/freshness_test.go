package cluster

import (
	"testing"
	"testing/synctest"
	"time"
)

// A read that was confirmed makes the state current for ten seconds, counted from its
// beginning: a member that was removed since counts as one for no longer.
func TestStateIsCurrentForTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c freshness
		if c.holds() {
			t.Error("current-for: a state that was never confirmed is current")
		}
		now := time.Now()
		c.confirmed.Store(&now)
		time.Sleep(10*time.Second - 1) // in a bubble
		if !c.holds() {
			t.Error("current-for: the state is not current just before ten seconds")
		}
		time.Sleep(time.Nanosecond) // in a bubble
		if c.holds() {
			t.Error("current-for: the state is still current after ten seconds")
		}
	})
}
