package leader

import (
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
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
		sessions := []fsm.Session{{Peer: "me", SkewMillis: c.own}}
		for i, ms := range c.rest {
			sessions = append(sessions, fsm.Session{Peer: fmt.Sprint(i), SkewMillis: ms})
		}
		if got := Skew(sessions, "me"); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := Skew([]fsm.Session{{Peer: "a"}, {Peer: "b"}, {Peer: "c", SkewMillis: h}}, "me"); got != 0 {
		t.Errorf("a peer without a session has skew %v", got)
	}
}
