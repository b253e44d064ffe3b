//go:build e2e

package labtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/internal/testwait"
)

// A follower whose cables carry nothing for some seconds, and refuse nothing, has its
// commands taken by the leader soon after they carry again: no connection waits for
// TCP's next repetition.
func TestCutFollowerIsBackSoon(t *testing.T) {
	const soon = 3 * time.Second // a dial of the last moment before, and one more
	l := NewHosts(t)
	l.Trio("h1", "h2", "h3")
	for n, cut := range []time.Duration{6 * time.Second, 7 * time.Second, 8 * time.Second, 9 * time.Second} {
		l.WaitLeader()
		p := l.Followers()[n%2]
		key := fmt.Sprintf("cut.%d", n)
		if err := p.Put(key, "before"); err != nil {
			t.Fatalf("before the cut: %v", err)
		}
		p.Host.Cut(Peers, Site)
		asked := make(chan error, 1)
		go func() { asked <- p.Put(key, "while") }() // it is under way when the cables carry again, or was refused
		testwait.Elapse(t, cut, "the follower is cut off")
		p.Host.Heal()
		began := time.Now()
		l.Eventually(electLimit, "the follower's command is taken", func() error { return p.Put(key, "after") })
		if took := time.Since(began); took > soon {
			t.Errorf("back-soon: after a cut of %v %s was of use after %v, want %v", cut, p.Name, took.Round(time.Millisecond), soon)
		} else {
			t.Logf("after a cut of %v %s was of use after %v", cut, p.Name, took.Round(time.Millisecond))
		}
		testwait.Receive(t, asked, "the command that was given while the follower was cut off ends")
		l.WaitVoters(3)
	}
}
