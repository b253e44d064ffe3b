package app

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// lostLog is the log of a peer that hears of a leader until a moment.
type lostLog struct{ until time.Time }

func (l lostLog) Leader() (raftstore.Server, bool) {
	return raftstore.Server{ID: "h2"}, time.Now().Before(l.until)
}

func (lostLog) Servers() []raftstore.Server {
	return []raftstore.Server{{ID: "h1"}, {ID: "h2"}, {ID: "h3"}}
}

// A peer that was removed while it was down learns it from the leader, and from
// no other answer; a peer that hears of a leader asks nobody.
func TestRemovedPeerWithoutALeaderLearnsIt(t *testing.T) {
	notMember := fmt.Errorf("%w: peer h1 was removed", cluster.ErrNotMember)
	for name, c := range map[string]struct {
		leads   time.Duration // for how long a leader is heard
		answers map[string]error
		removed time.Duration // at the latest; 0: never
	}{
		"the leader says so": {0, map[string]error{"h2": logerr.ErrNotLeader, "h3": notMember},
			orphanWait + orphanLook},
		"the first does not answer": {0, map[string]error{"h3": notMember}, orphanWait + orphanLook + orphanLimit},
		"the leader was heard at last": {time.Minute, map[string]error{"h2": notMember},
			time.Minute + orphanWait + orphanLook},
		"others lead no more": {0, map[string]error{"h2": logerr.ErrNotLeader, "h3": logerr.ErrNoLeader}, 0},
		"it is a member":      {0, map[string]error{"h2": nil, "h3": logerr.ErrNotLeader}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var asked []string
				o := orphan{self: "h1", log: lostLog{began.Add(c.leads)},
					ask: func(ctx context.Context, srv raftstore.Server) (uint64, error) {
						asked = append(asked, srv.ID)
						err, answers := c.answers[srv.ID]
						if !answers {
							<-ctx.Done()
							return 0, ctx.Err()
						}
						return 77, err
					}}
				ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
				defer stop()
				told := time.Duration(-1)
				o.watchMembership(ctx, func() { told = time.Since(began) })
				if (told >= 0) != (c.removed > 0) || told > c.removed || told >= 0 && told < c.leads+orphanWait {
					t.Errorf("removed-is-told: after %v, want by %v and not before %v", told, c.removed, c.leads+orphanWait)
				}
				if len(asked) == 0 || slices.Contains(asked, "h1") {
					t.Errorf("%q were asked", asked)
				}
			})
		})
	}
}
