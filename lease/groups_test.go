package lease_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/lease"
)

func groupOf(ids ...string) (g lease.Group) {
	for _, id := range ids {
		g.Members = append(g.Members, leases.GroupMember{ID: id, Lease: id, Token: 1})
	}
	return g
}

func owners(g lease.Group, keys int) map[string]string {
	out := make(map[string]string)
	for n := range keys {
		key := fmt.Sprint("key-", n)
		m, _ := g.Owner(key)
		out[key] = m.ID
	}
	return out
}

// TestOwnershipMovesOnlyWithItsMember: of a member that comes or goes, only its own
// keys move; and each has about its share.
func TestOwnershipMovesOnlyWithItsMember(t *testing.T) {
	const keys = 10_000
	three, four := owners(groupOf("a", "b", "c"), keys), owners(groupOf("a", "b", "c", "d"), keys)
	share := make(map[string]int)
	for key, owner := range four {
		share[owner]++
		if owner != three[key] && owner != "d" {
			t.Fatalf("%s went from %s to %s when d came", key, three[key], owner)
		}
	}
	for id, n := range share {
		if n < keys/5 || n > keys*3/10 {
			t.Errorf("%s has %d of %d keys", id, n, keys)
		}
	}
	if _, ok := groupOf().Owner("key"); ok {
		t.Error("nobody owns a key of nobody's")
	}
}

// TestOwnersStayTheSame over releases: peers of two releases answer about one group.
func TestOwnersStayTheSame(t *testing.T) {
	g := groupOf("a", "b", "c")
	for key, want := range map[string]string{"": "b", "key-0": "b", "key-1": "c", "key-2": "c"} {
		if m, _ := g.Owner(key); m.ID != want {
			t.Errorf("%q belongs to %s, it was %s", key, m.ID, want)
		}
	}
}

func TestGroupIsWatched(t *testing.T) {
	lend(t, func(r *rig) {
		g := r.acquire(lease.Acquisition{Name: "i", Holder: "one"})
		m := leases.GroupMember{Component: "web", ID: "i", Lease: "i", Token: g.Token}
		if err := r.Join(r.Context(), m); err != nil {
			r.Fatal(err)
		}
		one, err := r.Group(r.Context(), "web", lease.Linearizable)
		if err != nil || len(one.Members) != 1 || one.Index == 0 {
			r.Fatalf("%+v, %v", one, err)
		}
		began := time.Now()
		if same, err := r.WatchGroup(r.Context(), "web", one.Tag(), 2*time.Second); err != nil || same.Tag() != one.Tag() ||
			time.Since(began) != 2*time.Second {
			r.Errorf("%+v, %v", same, err)
		}
		go func() {
			time.Sleep(time.Second)
			m.Metadata = "moved"
			if err := r.Join(r.Context(), m); err != nil {
				r.Error(err)
			}
		}()
		began = time.Now()
		if moved, err := r.WatchGroup(r.Context(), "web", one.Tag(), 10*time.Second); err != nil ||
			time.Since(began) != time.Second {
			r.Errorf("%+v after %v, %v", moved, time.Since(began), err)
		} else {
			one = moved
		}
		began = time.Now()
		go func() {
			time.Sleep(time.Second)
			if err := r.Leave(r.Context(), m); err != nil {
				r.Error(err)
			}
		}()
		if none, err := r.WatchGroup(r.Context(), "web", one.Tag(), 10*time.Second); err != nil || len(none.Members) != 0 ||
			time.Since(began) > 4*time.Second {
			r.Errorf("%+v after %v, %v", none, time.Since(began), err)
		}
		r.is(r.Join(r.Context(), leases.GroupMember{Component: "web", ID: "i", Lease: "i", Token: g.Token + 100}), fsm.Fenced)
	})
}

func TestValuesAreKept(t *testing.T) {
	lend(t, func(r *rig) {
		g := r.acquire(lease.Acquisition{Name: "db", Holder: "one"})
		under := leases.Condition{Lease: "db", Token: g.Token}
		first, err := r.Put(r.Context(), "disk", []byte("a"), under, "1")
		if err != nil {
			r.Fatal(err)
		}
		if again, err := r.Put(r.Context(), "disk", []byte("a"), under, "1"); err != nil || again != first {
			r.Errorf("repeated: %v, %v, want %v", again, err, first)
		}
		if v, err := r.Value(r.Context(), "disk", lease.Linearizable); err != nil || string(v.Data) != "a" ||
			v.Version != first {
			r.Errorf("%+v, %v", v, err)
		}
		time.Sleep(ttl)
		_, err = r.Put(r.Context(), "disk", []byte("b"), under, "2")
		r.is(err, fsm.Fenced)
		r.is(r.Remove(r.Context(), "disk", under), fsm.Fenced)
		if err := r.Remove(r.Context(), "disk", leases.Condition{Compare: true, Version: first}); err != nil {
			r.Error(err)
		}
		for n := range 1001 {
			if _, err := r.Put(r.Context(), fmt.Sprintf("k:%04d", n), nil, leases.Condition{Compare: true}, ""); err != nil {
				r.Fatal(err)
			}
		}
		for after, want := range map[string]int{"": 1001, "disk": 1001, "k:0499": 501, "k:0999": 1, "k:1000": 0, "l": 0} {
			all, err := r.Values(r.Context(), "k:", after, lease.Stale)
			if err != nil {
				r.Fatal(err)
			}
			if n := len(slices.Collect(all)); n != want {
				r.Errorf("values-after: %d values after %q, want %d", n, after, want)
			}
		}
	})
}

// TestAnotherWriteIsAnother, also under the same ID: the next holder may count from one
// as well.
func TestAnotherWriteIsAnother(t *testing.T) {
	lend(t, func(r *rig) {
		var last fencing.Token
		for _, holder := range []string{"one", "two"} {
			g := r.acquire(lease.Acquisition{Name: "db", Holder: holder})
			for _, data := range []string{"a", "b"} {
				v, err := r.Put(r.Context(), "disk", []byte(data), leases.Condition{Lease: "db", Token: g.Token}, "1")
				if err != nil || v <= last {
					r.Errorf("%s writes %s: version %v, %v, and the last was %v", holder, data, v, err, last)
				}
				last = v
			}
			if err := r.release(g); err != nil {
				r.Error(err)
			}
		}
	})
}

// A watch waits for 30 s at most, and for no negative time.
func TestWatchOfAGroupIsBounded(t *testing.T) {
	lend(t, func(r *rig) {
		for wait, refused := range map[time.Duration]bool{-time.Second: true, 0: false, 30 * time.Second: false,
			31 * time.Second: true} {
			ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
			began := time.Now()
			_, err := r.WatchGroup(ctx, "web", lease.Group{}.Tag(), wait)
			cancel()
			if (err != nil) != refused || refused && time.Since(began) > 0 {
				r.Errorf("bounded-watch: %v: %v after %v", wait, err, time.Since(began))
			}
		}
	})
}
