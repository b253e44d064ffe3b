package admin

import (
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
)

// The refusal has the arithmetic and the right verb.
func TestLivingRefusal(t *testing.T) {
	for _, c := range []struct {
		name string
		v    Verdict
		want string
	}{
		{"three voters", Verdict{Peer: "h2", Leader: "h1", Votes: true, Voters: 3, Able: 3, Need: 2},
			"h2 lives: it answered the leader, h1, within the last second; 3 of 3 voters live, 2 are needed; without it 2 of 2 would live and 2 be needed: 0 more may be lost instead of 1"},
		{"one is dead already", Verdict{Peer: "h2", Leader: "h1", Votes: true, Voters: 3, Able: 2, Need: 2},
			"2 of 3 voters live, 2 are needed; without it 1 of 2 would live and 2 be needed: 0 more may be lost instead of 0"},
		{"five voters", Verdict{Peer: "h2", Leader: "h1", Votes: true, Voters: 5, Able: 5, Need: 3},
			"without it 4 of 4 would live and 3 be needed: 1 more may be lost instead of 2"},
		{"an observer", Verdict{Peer: "h4", Leader: "h1", Voters: 3, Able: 3, Need: 2},
			"3 of 3 voters live, 2 are needed; it has no vote"},
	} {
		err := livingRefusal(c.v)
		if err.Code != api.CodeConflict || !strings.Contains(err.Message, c.want) ||
			!strings.Contains(err.Hint, "'trivet leave' on "+c.v.Peer) {
			t.Errorf("%s: %+v", c.name, err)
		}
	}
}
