//go:build e2e

package chaos

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/labtest"
	"github.com/trivet-ha/trivet/test/testwait"
)

// class is what a fault strikes: two at once strike one peer only in different ones.
type class string

const (
	process class = "process"
	network class = "network"
	disk    class = "disk"
	clock   class = "clock"
)

// fault is a way to hurt a peer. strike returns what undoes it.
type fault struct {
	name   string
	class  class
	strike func(n *nemesis, p *labtest.Peer) (undo func())
}

// faults are all there are.
func faults() []fault {
	return []fault{
		{"kill -9", process, (*nemesis).kill},
		{"SIGSTOP", process, (*nemesis).pause},
		{"cut from all", network, cutting(labtest.Peers, labtest.Site)},
		{"cut from peers", network, cutting(labtest.Peers)},
		{"cut from clients", network, cutting(labtest.Site)},
		{"hears no peer", network, dropping("input", "iifname", string(labtest.Peers))},
		{"is heard by no peer", network, dropping("output", "oifname", string(labtest.Peers))},
		{"loses a third", network, dropping("input", "iifname", string(labtest.Peers), "numgen", "random", "mod", "3", "0")},
		{"cut from one peer", network, (*nemesis).cutPair},
		{"slow link", network, (*nemesis).slow},
		{"disk hangs", disk, (*nemesis).freeze},
		{"disk hangs in syncs", disk, (*nemesis).freezeBelow},
		{"disk full", disk, (*nemesis).fill},
		{"clock steps", clock, (*nemesis).stepClock},
	}
}

// nemesis strikes the peers of a cluster. Its methods are for the goroutine of the test.
type nemesis struct {
	*cluster
	rng     *rand.Rand
	longest time.Duration // of a fault
	down    map[*labtest.Peer]bool
	struck  map[string]int
	exits   int // of peers that ended by themselves
}

// run strikes until the time is over, and heals everything.
func (n *nemesis) run(until time.Time) {
	for time.Now().Before(until) {
		n.calm(time.Duration(500+n.rng.IntN(2500)) * time.Millisecond)
		undo := n.strike(n.rng.IntN(5) < 2)
		n.calm(min(n.long(), time.Until(until)))
		for _, one := range slices.Backward(undo) {
			one()
		}
		n.revive()
	}
}

// once strikes a peer with one of the faults named, for a while.
func (n *nemesis) once(names []string) {
	name := names[n.rng.IntN(len(names))]
	for _, f := range faults() {
		if f.name == name {
			undo := n.hit(f, n.victim())
			n.calm(n.long())
			undo()
		}
	}
	n.revive()
}

// long is for how long a fault lasts: 0.1 s to the longest, each order of magnitude as
// often as another.
func (n *nemesis) long() time.Duration {
	const least = 100 * time.Millisecond
	return time.Duration(float64(least) * math.Pow(float64(n.longest)/float64(least), n.rng.Float64()))
}

// strike strikes with one fault, or with two at once, a moment apart.
func (n *nemesis) strike(twice bool) (undo []func()) {
	all := faults()
	first, second := all[n.rng.IntN(len(all))], all[n.rng.IntN(len(all))]
	p, q := n.victim(), n.victim()
	undo = append(undo, n.hit(first, p))
	same := first.class == second.class || first.class == process || second.class == process
	if !twice || p == q && same {
		return undo
	}
	n.calm(time.Duration(n.rng.IntN(500)) * time.Millisecond)
	return append(undo, n.hit(second, q))
}

// hit strikes a peer that runs.
func (n *nemesis) hit(f fault, p *labtest.Peer) (undo func()) {
	if !slices.Contains(n.Running(), p) {
		return func() {} // it has ended by itself; revive starts it again
	}
	n.struck[f.name]++
	n.t.Logf("%s: %s", p.Name, f.name)
	return f.strike(n, p)
}

// victim is the leader, in half of all cases, or any peer.
func (n *nemesis) victim() *labtest.Peer {
	p := n.Peers[n.rng.IntN(len(n.Peers))]
	if n.rng.IntN(2) == 0 {
		return p
	}
	if s, err := p.Status(); err == nil {
		for _, leader := range n.Peers {
			if leader.Name == s.Leader {
				return leader
			}
		}
	}
	return p
}

// calm lets time pass, and starts peers that have ended by themselves, as their service
// manager does.
func (n *nemesis) calm(d time.Duration) {
	for end := time.Now().Add(d); time.Until(end) > 0; n.revive() {
		testwait.Elapse(n.t, min(250*time.Millisecond, time.Until(end)), "the peers run")
	}
}

func (n *nemesis) revive() {
	running := n.Running()
	for _, p := range n.Peers {
		if !n.down[p] && !slices.Contains(running, p) {
			n.exits++
			n.t.Logf("%s has ended by itself with exit code %d", p.Name, p.WaitExit(time.Second))
			p.Spawn()
		}
	}
}

func (n *nemesis) kill(p *labtest.Peer) func() {
	p.Kill9()
	n.down[p] = true
	return func() {
		p.Spawn()
		n.down[p] = false
	}
}

func (n *nemesis) pause(p *labtest.Peer) func() {
	p.Pause()
	n.down[p] = true
	return func() {
		p.Cont()
		n.down[p] = false
	}
}

// cutting takes cables off their switches.
func cutting(links ...labtest.Link) func(*nemesis, *labtest.Peer) func() {
	return func(_ *nemesis, p *labtest.Peer) func() {
		p.Host.Cut(links...)
		return p.Host.Heal
	}
}

// dropping has the peer's host drop packets of a hook of its packet filter.
func dropping(hook string, match ...string) func(*nemesis, *labtest.Peer) func() {
	return func(n *nemesis, p *labtest.Peer) func() {
		n.on(p, "nft", "add table inet chaos; add chain inet chaos drops { type filter hook "+hook+" priority -300; }")
		n.on(p, append([]string{"nft", "add", "rule", "inet", "chaos", "drops"}, append(match, "drop")...)...)
		return func() { n.on(p, "nft", "delete", "table", "inet", "chaos") }
	}
}

// cutPair cuts the peer from one of the others, which both reach the third.
func (n *nemesis) cutPair(p *labtest.Peer) func() {
	other := n.Peers[n.rng.IntN(len(n.Peers))]
	if other == p {
		other = n.Peers[(slices.Index(n.Peers, p)+1)%len(n.Peers)]
	}
	return dropping("input", "ip", "saddr", other.Host.Peers)(n, p)
}

// slow has the peer's link to the others carry little, after a queue of 0.8 s.
func (n *nemesis) slow(p *labtest.Peer) func() {
	p.Host.Shape(labtest.Peers, "tbf", "rate", "400kbit", "burst", "5kb", "latency", "800ms")
	return func() { p.Host.Shape(labtest.Peers) }
}

func (n *nemesis) freeze(p *labtest.Peer) func() {
	p.Freeze()
	return p.Thaw
}

func (n *nemesis) freezeBelow(p *labtest.Peer) func() {
	n.cluster.run("fsfreeze", "-f", n.below[p])
	return func() { n.thaw(p) }
}

// fill takes all that is free on the peer's disk.
func (n *nemesis) fill(p *labtest.Peer) func() {
	n.t.Helper()
	junk := filepath.Join(p.Dir, "junk")
	f, err := os.Create(junk)
	if err != nil {
		n.t.Logf("fill the disk of %s: %v", p.Name, err) // it is full of its own
		return func() {}
	}
	defer f.Close()
	for size := int64(64 << 20); size >= 4096; size /= 2 {
		for {
			end, err := f.Seek(0, 2)
			if err == nil {
				err = unix.Fallocate(int(f.Fd()), 0, end, size)
			}
			if errors.Is(err, unix.ENOSPC) {
				break
			}
			if err != nil {
				n.t.Fatalf("fill the disk of %s: %v", p.Name, err)
			}
		}
	}
	return func() {
		if err := os.Remove(junk); err != nil {
			n.t.Error(err)
		}
	}
}

// stepClock sets the peer's wall clock by up to a day, and back.
func (n *nemesis) stepClock(p *labtest.Peer) func() {
	ahead := n.rng.IntN(2*86400) - 86400
	n.t.Logf("%s: by %s s", p.Name, strconv.Itoa(ahead))
	n.setClock(p, ahead)
	return func() { n.setClock(p, 0) }
}
