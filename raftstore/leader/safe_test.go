package leader

import (
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	good := func(id string) Voter { return Voter{ID: id, Name: id} }
	silent := func(id string) Voter { return Voter{ID: id, Name: id, Silent: time.Minute} }
	behind := func(id string) Voter { return Voter{ID: id, Name: id, Behind: behindMost + 1} }
	rests := func(id string) Voter { return Voter{ID: id, Name: id, Refuses: "in maintenance"} }
	for _, c := range []struct {
		name   string
		voters []Voter
		id     string
		lose   int
		why    string // "": safe
	}{
		{"three are well", []Voter{good("a"), good("b"), good("c")}, "b", 1, ""},
		{"the leader itself", []Voter{good("a"), good("b"), good("c")}, "a", 1, ""},
		{"no voter", []Voter{good("a"), good("b"), good("c")}, "observer", 1, ""},
		{"another is dead", []Voter{good("a"), good("b"), silent("c")}, "b", 0,
			"1 would be left and 2 are needed: c does not answer"},
		{"it is the dead one", []Voter{good("a"), good("b"), silent("c")}, "c", 0, ""},
		{"another lags", []Voter{good("a"), good("b"), behind("c")}, "b", 0, "c is 1025 entries behind"},
		{"all others rest", []Voter{good("a"), rests("b"), rests("c")}, "a", 0,
			"none of them would lead: b would not (in maintenance), c would not"},
		{"of those that rest one may go", []Voter{good("a"), rests("b"), rests("c")}, "b", 0, ""},
		{"one of three rests", []Voter{good("a"), good("b"), rests("c")}, "a", 1, ""},
		{"two voters", []Voter{good("a"), good("b")}, "a", 0, "1 would be left and 2 are needed"},
		{"alone", []Voter{good("a")}, "a", 0, "0 would be left and 1 are needed"},
		{"five, two gone", []Voter{good("a"), good("b"), good("c"), silent("d"), behind("e")}, "c", 0,
			"2 would be left and 3 are needed"},
		{"five are well", []Voter{good("a"), good("b"), good("c"), good("d"), good("e")}, "c", 2, ""},
	} {
		s := Judge(c.voters, c.id)
		text := s.Sentence(c.id)
		if s.CanLose != c.lose || (len(s.Reasons) == 0) != (c.why == "") || !strings.Contains(text, c.why) {
			t.Errorf("safe-means-safe: %s: can lose %d, want %d; %q, want %q", c.name, s.CanLose, c.lose, text, c.why)
		}
	}
}

// A voter counts as alive for a second after the newest request that it
// acknowledged.
func TestLives(t *testing.T) {
	for silent, lives := range map[time.Duration]bool{0: true, time.Second: true, time.Second + time.Nanosecond: false} {
		if Lives(silent) != lives {
			t.Errorf("silent for %v: lives %t", silent, Lives(silent))
		}
	}
}
