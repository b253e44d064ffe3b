package simtest

import (
	"testing"
	"time"
)

func TestWholePeersElectAndAgree(t *testing.T) {
	Simulate(t, 3, 1, func(c *Cluster) {
		leader := c.AwaitLeader(5 * time.Second)
		t.Logf("%s leads", leader.Name)
		time.Sleep(5 * time.Second)
		if n := len(leader.Core().Store.View().Sessions()); n != 3 {
			t.Errorf("%d sessions after 5 s, want 3", n)
		}
		c.Net.Isolate(leader.Name)
		next := c.AwaitLeader(5*time.Second, leader)
		c.Net.HealAll()
		c.must(next.Kill())
		c.AwaitLeader(5*time.Second, next)
		c.must(next.Start())
		c.Agree(10 * time.Second)
	})
}
