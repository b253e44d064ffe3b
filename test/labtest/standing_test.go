//go:build e2e

package labtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestMembersLive takes real peers through what an operator decides of them:
// maintenance, an observer, new addresses under load, a replaced host.
func TestMembersLive(t *testing.T) {
	t.Parallel()
	l := Three(t)
	load := l.Write(3)
	l.maintained()
	l.allMove(load)
	l.observed()
	l.replaced()
	load.Stop()
	load.Verify(l.WaitLeader())
	l.WaitSame()
}

// maintained puts the leader into maintenance, restarts it, and ends it.
func (l *Lab) maintained() {
	t := l.t
	first := l.WaitLeader()
	if out := first.Trivet("failover-safe", first.On()); out.Code != 0 ||
		!strings.Contains(out.Err, "can lose 1 more; safe to stop "+first.Name) {
		t.Fatalf("failover-safe: exit %d\n%s%s", out.Code, out.Out, out.Err)
	}
	first.Must("maintenance", "on", first.On())
	if next := l.WaitLeader(); next == first {
		t.Fatalf("%s leads in maintenance", first.Name)
	}
	first.Stop()
	first.Start()
	await(l.t, electLimit, "it knows after a restart that it is in maintenance", first.Status, func(s api.Status) bool {
		return s.Maintenance
	})
	l.Eventually(electLimit, "readyz of a peer in maintenance", func() error { return first.unready("[-]maintenance") })
	next := l.WaitLeader()
	var last *Peer
	for _, p := range l.Followers() {
		if p != first {
			last = p
		}
	}
	next.Must("maintenance", "on", last.Name, next.On())
	last.Trivet("maintenance", "on", next.Name, last.On()).ended(t, 4, "nobody else could lead", "--force")
	last.Trivet("failover-safe", next.Name, last.On()).ended(t, 4, "in maintenance")
	for _, p := range []*Peer{first, last} {
		p.Must("maintenance", "off", p.On())
	}
}

// allMove gives one peer after the other new ports, each when failover-safe says
// that it may be stopped.
func (l *Lab) allMove(load *Load) {
	for _, p := range l.Running() {
		l.Eventually(growLimit, p.Name+" may be stopped", func() error {
			if r := p.Trivet("failover-safe", p.On()); r.Code != 0 {
				return fmt.Errorf("exit %d: %s", r.Code, r.Err)
			}
			return nil
		})
		p.Stop()
		p.Cluster, p.Gossip = testenv.FreePort(l.t), testenv.FreePort(l.t)
		p.Start()
		l.Eventually(growLimit, "the others dial "+p.Name+" where it is", func() error { return l.dialled(p) })
	}
	l.WaitVoters(3)
	load.Verify(l.WaitLeader())
}

// dialled says whether every running peer has p at its address.
func (l *Lab) dialled(p *Peer) error {
	for _, from := range l.Running() {
		var rows []api.Peer
		if err := from.Call("GET", "/v1/peers", nil, &rows); err != nil {
			return err
		}
		for _, row := range rows {
			if row.Name == p.Name && !strings.HasSuffix(row.Address, "@"+p.Cluster) {
				return fmt.Errorf("%s has it at %s, not at %s", from.Name, row.Address, p.Cluster)
			}
		}
	}
	return nil
}

// observed lets a fourth peer join as an observer, and takes it away again.
func (l *Lab) observed() {
	l.t.Helper()
	through := l.WaitLeader()
	p := l.Add("d")
	p.Must("join", through.Cluster, "--observer", "--token", through.Token(), "--wait", "10s", p.Flags())
	p.Start()
	await(l.t, growLimit, "the observer follows", p.Status, func(s api.Status) bool {
		return s.Observer && s.Quorum.Voters == 3 && s.Ready
	})
	if err := p.Put("through", "an observer"); err != nil {
		l.t.Errorf("a write through an observer: %v", err)
	}
	p.leave(l.t.(*testing.T))
	l.WaitVoters(3)
}

// replaced kills a follower, and has a new host take its place by a join token, under
// the name of the dead one, once that one's session has ended.
func (l *Lab) replaced() {
	t := l.t
	dead := l.Followers()[0]
	leader := l.WaitLeader()
	heir := l.Add("e")
	heir.Name = dead.Name
	token := leader.Token()
	heir.Trivet("join", leader.Cluster, "--token", token, heir.Flags()).ended(t, 4, "lives")
	dead.Kill9()
	heir.Must("join", leader.Cluster, "--token", token, "--wait", growLimit.String(), heir.Flags())
	heir.Start()
	l.WaitVoters(3)
}
