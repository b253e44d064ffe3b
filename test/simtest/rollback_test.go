package simtest

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/cluster"
)

// reports is for how long a cluster goes on after a copy of a disk was made: some
// renewals of sessions, which tell the log how far each peer has come.
const reports = 10 * time.Second

// A peer whose disk is replaced by an older copy, as by a snapshot of its virtual
// machine, learns it with its first session, also when all others were started
// again meanwhile; a peer whose disk is its own never does.
func TestRolledBackDiskIsNoticed(t *testing.T) {
	t.Parallel()
	for name, everyone := range map[string]bool{"the others run": false, "all were started again": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3, 211)
				defer c.end()
				var mu sync.Mutex
				told := make(map[string]error)
				c.RolledBack = func(p *Peer, err error) {
					mu.Lock()
					defer mu.Unlock()
					told[p.Name] = err
				}
				c.start()
				c.settle(0)
				p := c.Others(c.AwaitLeader(successionLimit))[0]
				c.must(p.Kill())
				older := p.Disk.platter.clone()
				c.must(p.Start())
				c.settle(0)
				time.Sleep(reports)

				for _, q := range c.Peers { // with the disks that they had
					c.must(q.Kill())
					c.must(q.Start())
					c.settle(0)
					time.Sleep(reports)
				}
				mu.Lock()
				if len(told) > 0 {
					t.Errorf("false-alarm: %v", told)
				}
				mu.Unlock()

				c.must(p.Kill())
				if everyone {
					for _, q := range c.Others(p) {
						c.must(q.Kill())
						c.must(q.Start())
					}
				}
				p.Disk.platter = older
				c.must(p.Start())
				var rolled *cluster.RolledBackError
				c.Until(successionLimit, "rollback-unnoticed: the peer is told", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return errors.As(told[p.Name], &rolled)
				})
				if rolled.Applied <= rolled.Stored || len(told) != 1 {
					t.Errorf("told: %v", told)
				}
			})
		})
	}
}
