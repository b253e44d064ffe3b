package lease

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/test/memlog"
)

// TestWatchersShareATag: a change of another group costs the watchers of a group nothing, one of
// its own a single computation, however many they are.
func TestWatchersShareATag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memlog.New(t)
		s := New(Options{Log: log, Do: log, MinTTL: time.Second})
		defer s.Close()
		var hashed atomic.Int64
		s.groups.hash = func(members []leases.GroupMember) string {
			hashed.Add(1)
			return tagOf(members)
		}
		grant, _, err := s.Acquire(t.Context(), Acquisition{Name: "l", Holder: "h", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		join := func(component string, n int) {
			t.Helper()
			m := leases.GroupMember{Component: component, ID: fmt.Sprint("m", n), Lease: "l", Token: grant.Token}
			if err := s.Join(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		join("big", 0)
		known, err := s.Group(t.Context(), "big", Linearizable)
		if err != nil {
			t.Fatal(err)
		}
		var watching sync.WaitGroup
		for range 100 {
			watching.Go(func() {
				g, err := s.WatchGroup(t.Context(), "big", known.Tag(), MaxWait)
				if err != nil || len(g.Members) != 2 || g.tag == "" || g.Tag() != tagOf(g.Members) {
					t.Errorf("watched: %+v, %v", g, err)
				}
			})
		}
		synctest.Wait()
		hashed.Store(0)
		for n := range 10 {
			join("other", n)
		}
		if n := hashed.Load(); n != 0 {
			t.Errorf("watchers-share-a-tag: 10 changes of another group cost %d computations", n)
		}
		join("big", 1)
		watching.Wait()
		if n := hashed.Load(); n != 1 {
			t.Errorf("watchers-share-a-tag: a change of the group cost %d computations", n)
		}
		if len(s.groups.all) != 0 {
			t.Errorf("watched-for-ever: %d groups were left by all watchers", len(s.groups.all))
		}
	})
}
