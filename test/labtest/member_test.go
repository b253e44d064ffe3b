//go:build e2e

package labtest

import (
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
)

// TestLeave takes a follower out, then the leader; the last but one cannot go.
func TestLeave(t *testing.T) {
	t.Parallel()
	l := Three(t)
	load := l.Write(3)
	follower := l.Followers()[0]
	follower.leave(t)
	l.WaitVoters(2)

	leader := l.WaitLeader()
	leader.leave(t)
	rest := l.Running()[0]
	l.WaitVoters(1)
	load.Verify(l.WaitLeader())

	rest.Trivet("leave", rest.On()).ended(t, 4, "is the only member")
	for _, p := range []*Peer{follower, leader} { // and again: nothing to do
		p.Trivet("leave", p.On()).ended(t, 0, "nothing to leave")
		p.Join(rest)
		p.Start()
	}
	l.WaitVoters(3)
	l.WaitSame()
}

// leave takes p out; the daemon must end well and leave nothing behind.
func (p *Peer) leave(t *testing.T) {
	t.Helper()
	p.Must("leave", p.On())
	if code := p.WaitExit(electLimit); code != 0 {
		t.Fatalf("%s exited with %d after it left", p.Name, code)
	}
	p.Trivet("serve", p.Flags()).ended(t, 2, "no peer lives in this data directory")
}

// TestLeaveRefused: with one of three dead, another may not leave; by force the
// arithmetic is the operator's.
func TestLeaveRefused(t *testing.T) {
	t.Parallel()
	l := Three(t)
	followers := l.Followers()
	dead, leaving := followers[0], followers[1]
	for _, asked := range []*Peer{l.WaitLeader(), leaving} { // the leader decides, whichever peer is asked
		asked.Trivet("remove", dead.Name, asked.On()).ended(t, 4,
			dead.Name+" lives: ", "3 of 3 voters live, 2 are needed; without it 2 of 2 would live", "trivet leave")
	}
	dead.Kill9()
	for range 2 { // at once, and when it is known to be silent
		leaving.Trivet("leave", leaving.On()).ended(t, 4,
			"2 members remain, of which 1 ", "a majority of them is 2", "--force")
		await(l.t, growLimit, "the dead peer is known to be silent", leaving.Status, func(s api.Status) bool {
			return s.Quorum.Live == 2
		})
	}
	leader := l.WaitLeader()
	leader.Must("remove", dead.Name, leader.On())
	leader.Trivet("remove", dead.Name, leader.On()).ended(t, 3)
	l.WaitVoters(2)

	// The removed one finds out by itself.
	dead.Spawn()
	if code := dead.WaitExit(electLimit); code != 4 || !strings.Contains(dead.Log(), "was removed from the cluster") {
		t.Fatalf("the removed peer exited with %d, and must say why", code)
	}
	if r := leader.Trivet("status", leader.On()); r.Code != 2 || !strings.Contains(r.Out, "two_voters") {
		t.Errorf("two voters and no Ironic: exit %d, want 2 and a warning:\n%s", r.Code, r.Out)
	}
}

// TestRejoin lets one host leave and join again many times.
func TestRejoin(t *testing.T) {
	t.Parallel()
	times := longer(6, 20)
	l := Three(t)
	load := l.Write(2)
	seen := make(map[string]bool)
	for i := range times {
		p := l.Followers()[0]
		p.leave(t)
		p.Join(l.WaitLeader())
		p.Start()
		l.WaitVoters(3)
		s, err := p.Status()
		if err != nil || seen[s.ID] {
			t.Fatalf("round %d: server ID %s again (%v)", i, s.ID, err)
		}
		seen[s.ID] = true
	}
	var members []admin.Member
	if err := l.Peers[0].Call("GET", "/v1/members", nil, &members); err != nil || len(members) != 3 {
		t.Fatalf("%d members (%v), want 3", len(members), err)
	}
	load.Verify(l.WaitLeader())
	l.WaitSame()
}

// TestTransfer hands leadership to a peer by name.
func TestTransfer(t *testing.T) {
	t.Parallel()
	l := Three(t)
	leader, to := l.WaitLeader(), l.Followers()[0]
	to.Trivet("transfer", to.On()).ended(t, 4, "run it on "+leader.Name)
	leader.Must("transfer", to.Name, leader.On())
	if now := l.WaitLeader(); now != to {
		t.Fatalf("%s leads after a transfer to %s", now.Name, to.Name)
	}
}
