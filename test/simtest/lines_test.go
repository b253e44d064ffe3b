package simtest

import (
	"os"
	"regexp"
	"testing"
	"time"
)

// absenceWanted is for how long TestLinesOfAnAbsence has a peer away: 11
// minutes by default, a day in `make sim`.
func absenceWanted(t *testing.T) time.Duration {
	text := os.Getenv("TRIVET_SIM_ABSENCE")
	if text == "" {
		return 11 * time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("TRIVET_SIM_ABSENCE: %v", err)
	}
	return d
}

// TestLinesOfAnAbsence counts what the two survivors log while the third peer is
// dead: by name that it is lost, each ten minutes that it is still lost, and at
// its return that it is back. That makes fewer than 200 lines a day.
func TestLinesOfAnAbsence(t *testing.T) {
	for _, c := range []struct {
		name string
		dead func(c *Cluster, leader *Peer) *Peer
	}{
		{"leader", func(_ *Cluster, leader *Peer) *Peer { return leader }},
		{"follower", func(c *Cluster, leader *Peer) *Peer { return c.Others(leader)[0] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			Simulate(t, 3, 5, func(cl *Cluster) { absence(cl, absenceWanted(t), c.dead) })
		})
	}
}

func absence(c *Cluster, away time.Duration, choose func(*Cluster, *Peer) *Peer) {
	c.settle(0)
	dead := choose(c, c.AwaitLeader(successionLimit))
	before := c.diary.written()
	c.must(dead.Kill())
	time.Sleep(away) // in a bubble
	lines := c.diary.written() - before
	// One line each ten minutes; the rest is of the loss itself, an election in it,
	// and of raft, which repeats itself after twice the time. 144 + 50 is a day.
	const ofLoss = 50
	periods := int(away / (10 * time.Minute))
	if most := periods + ofLoss; lines > most {
		c.T.Errorf("lines-are-bounded: %d lines in %v, want at most %d; the newest:\n%s", lines, away, most, &c.diary)
	}
	about := func(message string) int {
		return len(regexp.MustCompile(`level=(WARN|INFO) msg="`+message+`" host=\w+ peer=`+dead.Name+
			` silent_for=`).FindAllString(c.diary.String(), -1))
	}
	lost, still := about("peer lost: it acknowledges nothing"), about("peer still lost")
	newest := c.diary.String()
	c.must(dead.Start())
	c.settle(0)
	time.Sleep(15 * time.Second) // in a bubble
	c.T.Logf("%d lines in %v without %s, %d more at its return:\n%s", lines, away, dead.Name,
		c.diary.written()-before-lines, newest)
	if full := periods > diaryLines-ofLoss; !full && lost != 1 || !full && still != periods || still == 0 ||
		about("peer is back") != 1 {
		c.T.Errorf("peer-is-named: %d lines that %s is lost, %d that it is still lost, %d that it is back:\n%s", lost,
			dead.Name, still, about("peer is back"), &c.diary)
	}
}
