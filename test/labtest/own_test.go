//go:build e2e

package labtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/testwait"
)

const (
	// frozenLate is how much longer than D a host may go on whose clock stood still.
	frozenLate = 500 * time.Millisecond
	// lateAddress is how late a kernel removes an address whose life has ended: a
	// guest that is let go on has answered by then who asked while it was stopped.
	lateAddress = 300 * time.Millisecond
	// pauseFor is how long a guest is paused.
	pauseFor = 30 * time.Second
	// skewLimit is what a wall clock that is off may take to be seen by the peer
	// itself: its session is renewed every 3 s.
	skewLimit = 30 * time.Second
)

// TestOwnKernels tries the gate on three hosts with kernels and clocks of their
// own: Debian's 6.1, emulated. No kernel has ipset: nothing here uses it.
func TestOwnKernels(t *testing.T) {
	needPXE(t, map[string]string{"qemu-system-x86_64": "qemu-system-x86", "mmdebstrap": "mmdebstrap",
		"mke2fs": "e2fsprogs", "ip": "iproute2"})
	report := &ownReport{began: time.Now(), Timing: ownTiming()}
	ipset := []string{"ip_set", "ip_set_hash_mac"}
	t.Run("nftables", func(t *testing.T) {
		o := ownKind{driver: "nftables", lacks: ipset}.build(t, report)
		o.killed()
		o.stopped()
		for _, by := range []string{"+2 hours", "-5 hours"} {
			o.leaderOff(by)
			o.followerOff(by)
		}
		o.asleep()
		o.frozen()
		o.crashed()
		o.sum(t)
	})
	t.Run("iptables", func(t *testing.T) { // its lease is in nf_tables, too
		o := ownKind{driver: "iptables", lacks: ipset}.build(t, report)
		o.killed()
		o.leaderOff("+2 hours")
		o.leaderOff("-5 hours")
		o.refuses()
		o.sum(t)
	})
	report.print(t)
}

// TestOverlaps tries what the verdict relies on.
func TestOverlaps(t *testing.T) {
	const within = 2 * time.Second
	one, two, none := []int{1}, []int{2}, []int(nil)
	later := answersOf(one, two)
	later = append(later, asked{later[1].sent.Add(within), one})
	for name, c := range map[string]struct {
		all  []asked
		want int
	}{
		"clean":                 {answersOf(one, one, none, two, two), 0},
		"a third":               {answersOf(one, none, two, none, []int{3}), 0},
		"the old one once more": {answersOf(one, none, two, one, two), 2},
		"at once both":          {answersOf(one, []int{1, 2}, two), 2},
		"elected again":         {later, 0},
	} {
		if got := overlaps(c.all, within); got != c.want {
			t.Errorf("%s: %d overlaps, want %d", name, got, c.want)
		}
	}
}

// killed kills the leader's trivet.
func (o *ownLab) killed() {
	o.t.Helper()
	began, old := o.trouble(func(p *Peer) { o.signal(p, "KILL") }, o.serve)
	o.judged("SIGKILL", began, old, time.Time{})
}

// stopped stops it for a while.
func (o *ownLab) stopped() {
	o.t.Helper()
	var onward time.Time
	began, old := o.trouble(func(p *Peer) { o.signal(p, "STOP") }, func(p *Peer) {
		testwait.Elapse(o.t, 5*time.Second, "the leader stays stopped")
		onward = time.Now()
		o.signal(p, "CONT")
		testwait.Elapse(o.t, calm+o.hold(), "see what it does when it goes on")
	})
	o.judged("SIGSTOP", began, old, onward)
}

// leaderOff sets the leader's wall clock: it gives leadership away and says why.
func (o *ownLab) leaderOff(by string) {
	o.t.Helper()
	began, old := o.trouble(func(p *Peer) { o.guests[p].step(by) }, func(p *Peer) {
		o.saysOff(p)
		o.setClock(p)
	})
	o.judged("wall clock "+by, began, old, time.Time{})
}

// saysOff waits until a peer says that its clock is off, and that it does not
// lead therefore.
func (o *ownLab) saysOff(p *Peer) {
	o.t.Helper()
	o.Eventually(skewLimit, p.Name+" says that it refuses to lead",
		func() error { return p.warns("refuses_to_lead", "wall clock") })
}

// setClock sets a peer's wall clock right and waits until it says so.
func (o *ownLab) setClock(p *Peer) {
	o.t.Helper()
	o.guests[p].setClock()
	await(o.t, skewLimit, p.Name+" may lead again", p.Status, func(s api.Status) bool { return s.Refuses == "" })
}

// followerOff sets a follower's wall clock, which changes nothing, and kills the
// leader's trivet: the third leads, unless the follower alone has the newest
// entry. Then nobody else can be elected, and it hands leadership on.
func (o *ownLab) followerOff(by string) {
	o.t.Helper()
	o.settled()
	off := o.Followers()[0]
	stepped := time.Now()
	o.guests[off].step(by)
	o.saysOff(off)
	if n := answeredBy(o.allowed.since(stepped), off.Host.number) +
		answeredBy(o.address.since(stepped), off.Host.number); n > 0 {
		o.t.Errorf("a follower whose clock was set answered %d times", n)
	}
	began, old := o.trouble(func(p *Peer) { o.signal(p, "KILL") }, func(p *Peer) {
		o.handedOn(off)
		o.serve(p)
		o.setClock(off)
	})
	if h := judge(o.allowed.since(began), old); h.to == off.Host.number {
		o.t.Logf("host %d led for a while, whose wall clock is off by %s: nobody else could be elected", h.to, by)
	}
	o.judged("SIGKILL, a follower's wall clock "+by, began, old, time.Time{})
}

// handedOn waits until a peer whose wall clock is off does not lead.
func (o *ownLab) handedOn(off *Peer) {
	o.t.Helper()
	await(o.t, skewLimit, "another than "+off.Name+" leads, whose clock is off", off.Status, func(s api.Status) bool {
		return s.Leader != "" && s.Leader != off.Name
	})
}

// answeredBy counts the times that a host answered.
func answeredBy(all []asked, host int) int {
	return count(all, func(one asked) bool { return slices.Contains(one.by, host) })
}

// asleep stops the leader's emulator: the guest's clocks catch up when it goes
// on, and its lease has ended. Its address has, too, but the kernel removes that
// a moment later.
func (o *ownLab) asleep() {
	o.t.Helper()
	var onward time.Time
	began, old := o.trouble((*Peer).Pause, func(p *Peer) {
		testwait.Elapse(o.t, pauseFor, "the guest stays paused")
		onward = time.Now()
		p.Cont()
		testwait.Elapse(o.t, calm+o.hold()+frozenLate, "see what it does when it goes on")
		o.serves(p)
		o.tellClock(p)
		o.setClock(p)
	})
	trial := "guest paused, clocks catch up"
	o.alone(o.row(trial, o.allowed, began, old, onward))
	o.conceded(o.row(trial, o.address, began, old, onward), lateAddress)
}

// frozen stops the leader's processors and clocks: by them no time has passed
// when they go on, and what is left of the lease is left still.
func (o *ownLab) frozen() {
	o.t.Helper()
	var onward time.Time
	began, old := o.trouble(func(p *Peer) {
		o.guests[p].monitor("stop")
		p.aside = true
	}, func(p *Peer) {
		testwait.Elapse(o.t, pauseFor, "the guest stays paused")
		said := len(p.Log())
		onward = time.Now()
		o.guests[p].monitor("cont")
		testwait.Elapse(o.t, calm+o.hold()+frozenLate, "see what it does when it goes on")
		for line := range strings.Lines(p.Log()[said:]) {
			if strings.Contains(line, "PXE service") || strings.Contains(line, "leadership") {
				o.t.Logf("it said next: %s", strings.TrimSpace(line))
			}
		}
		o.serves(p)
		o.tellClock(p)
		o.setClock(p)
	})
	for _, a := range []*asker{o.allowed, o.address} {
		o.conceded(o.row("guest paused, clocks stand still", a, began, old, onward), o.hold()+frozenLate)
	}
}

// tellClock logs by how much a guest's wall clock is off.
func (o *ownLab) tellClock(p *Peer) {
	o.t.Helper()
	said := strings.TrimSpace(o.guests[p].must("date +%s.%N"))
	o.t.Logf("%s: its wall clock says %s at %d.%09d", p.Name, said, time.Now().Unix(), time.Now().Nanosecond())
}

// crashed takes the power from the leader's host, and gives it back: it rejoins
// by itself.
func (o *ownLab) crashed() {
	o.t.Helper()
	began, old := o.trouble(func(p *Peer) {
		o.guests[p].crash()
	}, func(p *Peer) {
		o.power(p)
		o.guests[p].awake()
		o.serves(p)
	})
	o.WaitSame()
	o.judged("power loss", began, old, time.Time{})
}

// refuses starts a follower on a kernel without nf_tables, with each driver: it
// serves, opens nothing, and names what is missing.
func (o *ownLab) refuses() {
	o.t.Helper()
	for _, driver := range []string{"nftables", "iptables", "auto"} {
		o.settled()
		p := o.Followers()[0]
		g := o.guests[p]
		lacks := g.lacks
		g.must("sed -i 's/driver: [a-z]*/driver: " + driver + "/' /data/trivet.yaml && sync")
		g.crash()
		g.lacks = append(lacks, "nf_tables")
		o.power(p)
		g.awake()
		o.serves(p)
		said := await(o.t, skewLimit, p.Name+" names what its kernel lacks", p.filter, func(f api.Firewall) bool {
			return !f.Door.Open && strings.Contains(f.Rules.Problem, "CONFIG_NF_TABLES")
		})
		o.t.Logf("driver %s without nf_tables: %s", driver, said.Rules.Problem)
		g.must("sed -i 's/driver: [a-z]*/driver: " + o.driver + "/' /data/trivet.yaml && sync")
		g.crash()
		g.lacks = lacks
		o.power(p)
		g.awake()
		o.serves(p)
		o.WaitVoters(3)
	}
}

// sum wants nothing to have reached what is denied, and no kernel to have ipset.
func (o *ownLab) sum(t *testing.T) {
	t.Helper()
	if n := answered(o.denied.since(time.Time{})); n > 0 {
		t.Errorf("the machine on the blacklist got %d offers", n)
	}
	for _, p := range o.Peers {
		said := o.guests[p].must("uname -r; cut -d' ' -f1 /proc/modules")
		kernel, modules, _ := strings.Cut(said, "\n")
		o.report.Kernel = kernel
		loaded := strings.Fields(modules)
		t.Logf("%s: kernel %s: %s", p.Name, kernel, strings.Join(loaded, " "))
		for _, one := range loaded {
			if strings.HasPrefix(one, "ip_set") || o.driver == "auto" && one == "nf_tables" {
				t.Errorf("%s: the module %s is loaded, which was to be missing", p.Name, one)
			}
		}
	}
}
