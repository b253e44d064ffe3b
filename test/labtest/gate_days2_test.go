//go:build e2e

package labtest

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// Limits of what is said and done on a bad day.
const (
	// hungGoal is for how long a door is to stay open at most after its host's disk
	// hung.
	hungGoal = 3 * time.Second
	// syncPeriod is how often Ironic's ports are listed here: so often that a
	// list is old before a test is over.
	syncPeriod = 5 * time.Second
)

// TestGateOnMoreDays tries what does no harm, and a disk, rules and a lock that
// somebody else has.
func TestGateOnMoreDays(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"nftables", "iptables"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			g := gateKind{env: []string{"TRIVET_FIREWALL_SYNC_PERIOD=" + syncPeriod.String()}}.build(t, driver)
			g.waits(t)
			long := longDays()
			if driver == "nftables" || long { // what no driver has a part in
				g.forsaken()
				g.frozen()
			}
			if long {
				g.strike("SIGSTOP for 30 s", bootLimit, (*Peer).Pause, func(p *Peer) {
					testwait.Elapse(t, 30*time.Second, "the leader stays stopped")
					p.Cont()
					testwait.Elapse(t, 5*time.Second, "see what it does when it goes on")
				})
			}
			if driver == "iptables" {
				g.unleased()
				g.emptied()
				g.legacy()
				g.emptied()
				g.locked()
			}
			g.sum(t)
		})
	}
}

// forsaken takes Ironic away, and one follower for a while: nothing changes, and
// every peer says how old the list is.
func (g *gateLab) forsaken() {
	g.t.Helper()
	leader := g.settled()
	follower := g.Followers()[0]
	away := longer(22*time.Second, time.Minute)
	fault := g.Tap.Inject(wiretap.Fault{Cut: wiretap.Request})
	began := time.Now()
	follower.Kill9()
	testwait.Elapse(g.t, 5*time.Second, "the follower stays dead")
	follower.Start()
	g.Eventually(2*away, "the leader says that the list is old", func() error { return leader.listIsOld() })
	testwait.Elapse(g.t, time.Until(began.Add(away)), "Ironic stays away")
	now, err := g.agreedLeader()
	if err != nil || now != leader {
		g.t.Errorf("Ironic away, a follower dead: the leader is %v (%v), want still %s", now, err, leader.Name)
	}
	for _, a := range []*asker{g.allowed, g.address} {
		all := a.between(began, time.Now().Add(-calm))
		right := steady(all, leader.Host.number)
		g.t.Logf("Ironic away for %v, a follower dead: ask for %s: %d of %d by host %d alone", away, a.name, right, len(all),
			leader.Host.number)
		if right == 0 || right < answered(all) {
			g.t.Errorf("ask for %s: %d of %d by host %d alone, %d answers", a.name, right, len(all), leader.Host.number,
				answered(all))
		}
		g.right += right
		g.all += len(all)
	}
	fault.Lift()
	await(g.t, growLimit, "the list is new", leader.filter, func(f api.Firewall) bool {
		return f.Ports.Problem == "" && f.Ports.AgeMS <= syncPeriod.Milliseconds()
	})
	g.WaitVoters(3)
}

// listIsOld fails until a peer has said so in both places.
func (p *Peer) listIsOld() error {
	f, err := p.filter()
	if err == nil && (f.Ports.AgeMS < 3*syncPeriod.Milliseconds() || f.Ports.Problem == "" || !f.Door.Open) {
		err = fmt.Errorf("%d ms old, problem %q, door open: %v", f.Ports.AgeMS, f.Ports.Problem, f.Door.Open)
	}
	return cmp.Or(err, p.warns("old_port_list", "is"))
}

// warns fails until a peer's status has a warning with these words, and with what to do.
func (p *Peer) warns(code, words string) error {
	s, err := p.Status()
	if err != nil {
		return err
	}
	var codes []string
	for _, w := range s.Warnings {
		if w.Code == code && strings.Contains(w.Text, words) && w.Remedy != "" {
			return nil
		}
		codes = append(codes, w.Code+": "+w.Text)
	}
	return fmt.Errorf("no warning %s with %q among %q", code, words, codes)
}

// frozen hangs the disk of the leader: its door shuts, another leads and opens,
// and the host of the hung disk says that it is so.
func (g *gateLab) frozen() {
	g.t.Helper()
	testenv.NeedRoot(g.t, "mount", "umount", "mkfs.ext4", "fsfreeze", "losetup")
	leader := g.settled()
	leader.ontoExt4()
	g.WaitVoters(3)
	g.lead(leader)
	if g.settled() != leader {
		g.t.Fatalf("%s does not lead, whose disk is to hang", leader.Name)
	}
	old := leader.Host.number
	began := time.Now()
	leader.Freeze()
	g.taken(began, old)
	if why := g.shut(leader); !strings.Contains(why, "disk") {
		g.t.Errorf("%s does not name its disk as what shut its door: %q", leader.Name, why)
	}
	g.Eventually(electLimit, "status names the disk", func() error { return leader.warns("refuses_to_lead", "disk") })
	if !strings.Contains(leader.Log(), "disk watchdog tripped") {
		g.t.Errorf("the log of %s does not name the watchdog", leader.Name)
	}
	leader.Thaw()
	g.WaitVoters(3)
	g.settled()
	for _, a := range []*asker{g.allowed, g.address} {
		open := lastBy(a.since(began), old).Sub(began)
		g.t.Logf("disk of host %d hung: it answered %s for another %v", old, a.name, open.Round(time.Millisecond))
		g.longest.took(g.t, g.figure("hung disk", g.asks(a), "late"), max(0, open), hungGoal)
		g.verdict("hung disk", a, began, old, bootLimit)
	}
}

// ontoExt4 moves the peer's data directory to a file system of its own.
func (p *Peer) ontoExt4() {
	p.t.Helper()
	p.Stop()
	aside := p.Dir + ".aside"
	testenv.Must(p.t, os.Rename(p.Dir, aside))
	p.Ext4()
	sh(p.t, "cp", "-a", aside+"/.", p.Dir)
	p.Start()
}

// unleased deletes the table with the lease on a follower's host: it is noticed
// and built again at once, shut, though no list is missing.
func (g *gateLab) unleased() {
	g.t.Helper()
	g.settled()
	p := g.Followers()[0]
	before, err := p.filter()
	testenv.Must(g.t, err)
	p.Host.sh("nft", "delete", "table", "inet", "trivet_pxe")
	filter := p.Host.nftables("iptables", PXE)
	left := func() (time.Duration, error) { return filter.Left(g.t.Context()) }
	await(g.t, electLimit, "the lease's table is there again", left, func(d time.Duration) bool { return d <= 0 })
	await(g.t, electLimit, p.Name+" saw the drift", p.filter, func(f api.Firewall) bool {
		return f.Rules.Drift > before.Rules.Drift && f.Rules.Equal
	})
}

// emptied flushes the leader's table filter, as an administrator's script does:
// what is on the blacklist may boot until that is seen; then the leader hands
// over.
func (g *gateLab) emptied() {
	g.t.Helper()
	leader := g.settled()
	old := leader.Host.number
	before, err := leader.filter()
	testenv.Must(g.t, err)
	command := leader.backend()
	began := time.Now()
	leader.Host.sh(command, "-F")
	g.taken(began, old)
	g.settled()
	offers := g.denied.since(began)
	g.t.Logf("%s -F: %d offers to what is denied, the last after %v", command, answered(offers),
		max(0, lastBy(offers, old).Sub(began)).Round(time.Millisecond))
	g.longest.took(g.t, g.figure(command, "flush open"), max(0, lastBy(offers, old).Sub(began)), emptyGoal)
	g.pardon(began, old)
	g.verdicts(command+" -F", began, old, bootLimit)
	await(g.t, electLimit, "the flushed host has its rules again", leader.filter, func(f api.Firewall) bool {
		return f.Rules.Equal && f.Rules.Drift > before.Rules.Drift && !f.Door.Open
	})
}

// emptyGoal is how long a flush of the table filter is to go unseen at most: the filter
// looks every second, or two where a look takes long, and the commands that look
// and mend take a second or two more where others want the processors, too.
const emptyGoal = 5 * time.Second

// backend is the command that writes to the back end of iptables that the peer's
// last process chose.
func (p *Peer) backend() string {
	log := p.Log()
	_, last, _ := strings.Cut(log[max(0, strings.LastIndex(log, "the rules are kept in the ")):], "kept in the ")
	if strings.HasPrefix(last, "legacy") {
		return "iptables-legacy"
	}
	return "iptables-nft"
}

// legacy moves every host to the legacy back end: with a rule of somebody else
// there it is the one that the driver takes. Every host has a lock of its own,
// as if it were a machine of its own.
func (g *gateLab) legacy() {
	g.t.Helper()
	testenv.NeedRoot(g.t, "iptables-legacy")
	for _, p := range g.Peers {
		p.Host.sh("iptables-legacy", "-A", "INPUT", "-p", "icmp", "-j",
			"ACCEPT")
		p.Stop()
		p.Env = append(p.Env, "XTABLES_LOCKFILE="+p.lockFile())
		p.Start()
		g.WaitVoters(3)
		if back := p.backend(); back != "iptables-legacy" {
			g.t.Fatalf("%s keeps its rules by %s", p.Name, back)
		}
	}
}

func (p *Peer) lockFile() string { return filepath.Join(p.lab.dir, p.Name+".xtables") }

// locked holds the lock of the legacy back end on the leader's host. The lease
// needs none: nothing changes before the lists must. Then the door shuts, the
// holder is named, and another host opens.
func (g *gateLab) locked() {
	g.t.Helper()
	leader := g.settled()
	old := leader.Host.number
	lock, err := os.OpenFile(leader.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		defer lock.Close()
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	testenv.Must(g.t, err)
	began := time.Now()
	testwait.Elapse(g.t, 3*time.Second, "the lock stays held")
	all := g.allowed.between(began, time.Now().Add(-calm/4))
	if steady(all, old) < answered(all) {
		g.t.Errorf("while the lock was held and nothing was to be written, %d of %d answers were of host %d alone",
			steady(all, old), answered(all), old)
	}
	share(g.t, g.figure("locked share"), steady(all, old), len(all), 1)
	changed := time.Now()
	g.Introspect(g.machines[2:3], leader)
	seen := await(g.t, bootLimit, "it is shut, and the holder of the lock is named", leader.filter,
		func(f api.Firewall) bool {
			return !f.Door.Open && strings.Contains(f.Rules.Problem, "xtables lock") &&
				strings.Contains(f.Rules.Problem, fmt.Sprint(os.Getpid()))
		})
	g.t.Logf("xtables lock held: shut %v after the lists changed: %s", time.Since(changed).Round(time.Millisecond),
		seen.Rules.Problem)
	g.taken(changed, old)
	testenv.Must(g.t, unix.Flock(int(lock.Fd()), unix.LOCK_UN))
	g.settled()
	g.verdicts("lock", began, old, bootLimit)
	await(g.t, growLimit, "its rules are in step again", leader.filter, func(f api.Firewall) bool { return f.Rules.Equal })
}
