package leader

import (
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

func TestSkew(t *testing.T) {
	const s, h = int64(1000), int64(3_600_000)
	for _, c := range []struct {
		name string
		own  int64
		rest []int64
		want time.Duration
	}{
		{"all agree", 0, []int64{0, 0}, 0},
		{"one other is wrong", 0, []int64{0, 2 * h}, 0},
		{"I am wrong", 2 * h, []int64{0, 0}, 2 * time.Hour},
		{"I am the leader and wrong, so the others look wrong", 0, []int64{-2 * h, -2 * h}, 2 * time.Hour},
		{"all differ: the median may lead", 0, []int64{2 * h, -5 * h}, 0},
		{"all differ: the fast one may not", 2 * h, []int64{0, -5 * h}, 2 * time.Hour},
		{"two clocks do not tell which is wrong", 2 * h, []int64{0}, 0},
		{"alone", 2 * h, nil, 0},
		{"four: near one of the middle two", 3 * s, []int64{0, 0, 4 * s}, 0},
		{"four: two against two", 0, []int64{0, h, h}, 0},
		{"five: one off", 6 * s, []int64{0, 0, 1 * s, 1 * s}, 5 * time.Second},
	} {
		at := fsm.Time(0).Add(membership.SessionTTL + time.Second)
		sessions := []membership.Session{{Peer: "me", SkewMillis: c.own, Expires: at}}
		for i, ms := range c.rest {
			sessions = append(sessions, membership.Session{Peer: fmt.Sprint(i), SkewMillis: ms, Expires: at})
		}
		if got, known := Skew(sessions, 0, "me"); got != c.want || !known {
			t.Errorf("%s: %v, known: %v; want %v", c.name, got, known, c.want)
		}
	}
	fresh := fsm.Time(0).Add(membership.SessionTTL + 1)
	others := []membership.Session{{Peer: "a", Expires: fresh}, {Peer: "b", Expires: fresh},
		{Peer: "c", SkewMillis: h, Expires: fresh}}
	if got, known := Skew(others, 0, "me"); got != 0 || !known {
		t.Errorf("a peer without a session has skew %v, known: %v", got, known)
	}
}

// Two clocks tell nothing of each other, also right after a change of leader: what
// was known under the leader before does not stay.
func TestSkewOfTwoPeers(t *testing.T) {
	since := fsm.Time(0).Add(time.Minute)
	old := since.Add(membership.SessionTTL)
	sessions := []membership.Session{{Peer: "me", SkewMillis: 3_600_000, Expires: old}, {Peer: "a", Expires: old}}
	if got, known := Skew(sessions, since, "me"); got != 0 || !known {
		t.Errorf("two-clocks: %v, known: %v; want 0, known", got, known)
	}
}

// TestSkewUnderAnotherLeader has the two peers whose clocks are right take over
// from a leader that was five hours slow: what they had reported to that one says
// nothing, and what was known of a peer stays known.
func TestSkewUnderAnotherLeader(t *testing.T) {
	const h = int64(3_600_000)
	since := fsm.Time(0).Add(time.Minute)
	old, fresh := since.Add(membership.SessionTTL), since.Add(membership.SessionTTL+time.Second)
	sessions := []membership.Session{{Peer: "slow", Expires: old}, {Peer: "a", SkewMillis: 5 * h, Expires: old},
		{Peer: "b", Expires: fresh}}
	for _, peer := range []string{"slow", "a", "b"} {
		if got, known := Skew(sessions, since, peer); got != 0 || known {
			t.Errorf("reports-to-another-leader: %s: %v, known: %v; want nothing to be known", peer, got, known)
		}
	}
	sessions[0].Expires, sessions[0].SkewMillis = fresh, -5*h
	sessions[1].Expires, sessions[1].SkewMillis = fresh, 0
	for peer, want := range map[string]time.Duration{"slow": -5 * time.Hour, "a": 0, "b": 0} {
		if got, known := Skew(sessions, since, peer); got != want || !known {
			t.Errorf("%s: %v, known: %v; want %v", peer, got, known, want)
		}
	}
}
