//go:build e2e

package labtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testwait"
)

// A follower whose cables carry nothing for some seconds, and refuse nothing, has its
// commands taken by the leader after they carry again; how soon is a figure, which
// shows whether a connection waits for TCP's next repetition.
func TestCutFollowerIsBackSoon(t *testing.T) {
	const soon = 3 * time.Second // a dial of the last moment before, and one more
	l, longest := NewHosts(t), make(worst)
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
		longest.took(t, "labtest.cut_follower_back", time.Since(began), soon)
		testwait.Receive(t, asked, "the command that was given while the follower was cut off ends")
		l.WaitVoters(3)
	}
}
