//go:build e2e

package labtest

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestHostsThemselves tries the lab's own network: a leader whose cable to the
// other peers is taken off steps down, is still reached from the site, and
// follows when the cable is back.
func TestHostsThemselves(t *testing.T) {
	t.Parallel()
	l := NewHosts(t)
	l.Trio("a", "b", "c")
	leader := l.WaitLeader()
	leader.Host.Cut(Peers)
	await(l.t, growLimit, "it knows that it leads no more", leader.Status, func(s api.Status) bool {
		return s.Leader == ""
	})
	code, took := leader.web(t, "/livez")
	if code != 200 {
		t.Errorf("/livez from the site: %d", code)
	}
	testenv.Took(t, "labtest.cut_leader_livez", took, time.Second)
	l.servedByOthers(leader, electLimit)
	leader.Host.Heal()
	l.WaitVoters(3)
	l.WaitLeader()
	l.WaitSame()
}
