//go:build e2e

package labtest

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestDrill practises the loss of the leader on three hosts with a door and a
// floating IP, by hand-over and by the end of its process.
func TestDrill(t *testing.T) {
	g := gateKind{}.build(t, "nftables")
	g.waits(t)
	leader := g.settled()
	p := g.Followers()[0]

	p.Trivet("drill", "failover", p.On()).ended(t, 2, "--yes")
	p.Trivet("drill", "failover", "--yes", p.On()).ended(t, 4, "1 introspections are under way")
	leader.Trivet("drill", "failover", "--yes", "--with-introspections", "--kill", leader.On()).ended(t, 4,
		"run it on another host")

	g.drills(p, leader, "transfer", "API", "floating IP", "PXE")
	leader = g.settled()
	p = g.Followers()[0]
	restarted := make(chan struct{})
	go func() { // as the unit does, whose RestartSec is a second: sooner it may lead again
		defer close(restarted)
		<-leader.proc.Done
		testwait.Elapse(t, time.Second, "RestartSec")
		leader.Spawn()
	}()
	g.drills(p, leader, "kill", "API", "floating IP", "PXE", "return")
	testwait.Receive(t, restarted, "the killed peer is started again")

	other := g.Followers()[0]
	other.signal(syscall.SIGKILL)
	testwait.Receive(t, other.proc.Done, "the killed peer ends")
	g.Eventually(electLimit, "a drill is refused when none may be lost", func() error {
		r := g.WaitLeader().Trivet("drill", "failover", "--yes", "--with-introspections", g.WaitLeader().On())
		if r.Code != 4 || !strings.Contains(r.Err, "none may be lost") {
			return &httpapi.Refusal{Status: r.Code, Body: r.Err}
		}
		return nil
	})
}

// drills runs one and wants figures of all kinds, from the others as well. Whether
// they are within their bounds the command says by its exit code, and is recorded.
func (g *gateLab) drills(p, old *Peer, kind string, kinds ...string) {
	g.t.Helper()
	words := []any{"drill", "failover", "--yes", "--with-introspections", "-o", "json", p.On()}
	if kind == "kill" {
		words = append(words, "--kill")
	}
	got := p.Trivet(words...)
	var r admin.DrillReport
	if err := json.Unmarshal([]byte(got.Out), &r); err != nil {
		g.t.Fatalf("drill %s: exit %d: %v\n%s%s", kind, got.Code, err, got.Out, got.Err)
	}
	g.t.Logf("%s", got.Out)
	if r.OK != (got.Code == 0) || !r.OK && !strings.Contains(got.Err, "was not within its bounds") || r.Kind != kind ||
		r.OldLeader != old.Name || r.NewLeader == old.Name {
		g.t.Errorf("drill-bounds: %s: exit %d, want another leader, and 0 if all is within bounds\n%s", kind, got.Code,
			got.Err)
	}
	seen, within := make(map[string]int), true
	for _, row := range r.Rows {
		seen[row.What]++
		within = within && row.OK
		if row.Note != "" && !row.OK {
			g.t.Errorf("drill %s: nothing is known of %s from %s: %s", kind, row.What, row.From, row.Note)
		}
		if row.Note == "" && row.BoundMS > 0 {
			ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
			g.longest.took(g.t, g.figure("drill", kind, row.What), ms(row.LongestMS), ms(row.BoundMS))
		}
	}
	if within != r.OK {
		g.t.Errorf("drill-bounds: %s: OK is %v, of all rows %v", kind, r.OK, within)
	}
	for _, what := range kinds {
		if seen[what] == 0 {
			g.t.Errorf("drill %s tells nothing of %s", kind, what)
		}
	}
	if seen["API"] != 3 {
		g.t.Errorf("drill %s: %d peers tell of the API, want 3", kind, seen["API"])
	}
}
