//go:build e2e

package labtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// What `make bench AREA=gate` asks for: into which file the figures go, and how
// many trials there are of each kind.
const (
	figuresEnv = "TRIVET_GATE_FIGURES"
	trialsEnv  = "TRIVET_GATE_TRIALS"
)

const (
	// siteMachines is how many machines Ironic knows while the gate is measured.
	siteMachines = 10_000
	// startsPerTrial is how many introspections are started where others are
	// content with one trial: only of many is there a 99th part.
	startsPerTrial = 20
	// startLimit is how long a start may take to let its machine through.
	startLimit = 10 * time.Second
	// batchBoots is how long a machine of a batch boots at the most, and batchBootsEach
	// how long for each trial.
	batchBoots, batchBootsEach = 3 * time.Minute, 10 * time.Second
	// batchEnds is how long the last of a batch may take after all have booted.
	batchEnds = time.Minute
	// lookOn is for how long two holders of one address are looked at.
	lookOn = 5 * time.Second
)

// figures are measured durations in seconds, and counts, by name.
type figures map[string][]float64

func (f figures) add(name string, d time.Duration) { f[name] = append(f[name], d.Seconds()) }

// measured returns where to put figures, which are written when the test ends,
// and the number of trials. Without a file to write to the test is skipped.
func measured(t *testing.T) (f figures, trials int) {
	t.Helper()
	path := os.Getenv(figuresEnv)
	if path == "" {
		t.Skipf("it measures: %s names no file", figuresEnv)
	}
	trials = numberOf(t, trialsEnv, 0)
	if trials == 0 {
		t.Fatalf("%s names no number of trials", trialsEnv)
	}
	f = make(figures)
	t.Cleanup(func() {
		text, err := json.Marshal(f)
		testenv.Must(t, errors.Join(err, os.WriteFile(path, text, 0o600)))
	})
	return f, trials
}

// TestFiguresOfStarts takes the time from a call that starts an introspection
// until the kernel of the leader's host lets the machine through.
func TestFiguresOfStarts(t *testing.T) {
	f, trials := measured(t)
	g := gateKind{machines: siteMachines}.build(t, "nftables")
	leader, machines := g.listed(), g.machines[2:]
	allowed := leader.Host.allowances(t)
	via := []*Peer{g.Followers()[0], leader}
	for n, m := range machines[:min(startsPerTrial*trials, len(machines))] {
		at := allowed.await(hardware(t, m.MAC))
		began := time.Now()
		testenv.Must(t, via[n%len(via)].Introspect(m.UUID))
		f.add([]string{"answer.follower", "answer.leader"}[n%len(via)], time.Since(began))
		took := testwait.ReceiveWithin(t, startLimit, at, m.Name+" is let through after its start")
		f.add([]string{"follower", "leader"}[n%len(via)], took.Sub(began))
	}
	if now := g.WaitLeader(); now != leader {
		t.Fatalf("leadership went from %s to %s meanwhile", leader.Name, now.Name)
	}
}

// TestFiguresOfABatch takes how long a batch of machines is introspected. Nothing is
// heard of any while it boots, and then all call back at once: the most work that a batch
// can make.
func TestFiguresOfABatch(t *testing.T) {
	f, trials := measured(t)
	boots := min(batchBoots, time.Duration(trials)*batchBootsEach)
	g := gateKind{machines: siteMachines}.build(t, "nftables")
	leader, machines := g.listed(), g.machines[2:2+batchMachines]
	g.fleet(machines, boots, boots)
	began := time.Now()
	g.Introspect(machines)
	f.add("started", time.Since(began))
	testwait.Elapse(t, boots-time.Since(began), "the machines boot")
	g.MustFinish(batchEnds, machines)
	f.add("finished", time.Since(began))
	f.add("boots", boots)
	if now := g.WaitLeader(); now != leader {
		t.Fatalf("leadership went from %s to %s meanwhile", leader.Name, now.Name)
	}
}

// listed waits until the leader's rules hold all machines.
func (g *gateLab) listed() (leader *Peer) {
	g.t.Helper()
	g.Eventually(growLimit, "all machines are listed", func() (err error) {
		leader = g.WaitLeader()
		for _, p := range g.Peers {
			now, err := p.filter()
			if err == nil && (!now.Rules.Equal || now.Rules.Actual.Deny < len(g.machines)) {
				err = fmt.Errorf("%s denies %d of %d", p.Name, now.Rules.Actual.Deny, len(g.machines))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return leader
}

// allowances hear from a host's kernel who is put on its list of the allowed.
type allowances struct {
	mu     sync.Mutex
	waited map[[6]byte]chan time.Time
}

// allowances listens until the test ends.
func (h *Host) allowances(t *testing.T) *allowances {
	t.Helper()
	ns, err := os.Open("/run/netns/" + h.net.ns(h.number))
	testenv.Must(t, err)
	defer ns.Close()
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: int(ns.Fd())})
	if err == nil {
		err = errors.Join(conn.JoinGroup(unix.NFNLGRP_NFTABLES), conn.SetReadBuffer(4<<20))
	}
	testenv.Must(t, err)
	a := &allowances{waited: make(map[[6]byte]chan time.Time)}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			told, err := conn.Receive()
			if err != nil {
				return // closed; who waits for more will say so
			}
			a.tell(told, time.Now())
		}
	})
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		work.Wait()
	})
	return a
}

// await yields when a machine was put on the list.
func (a *allowances) await(mac net.HardwareAddr) <-chan time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := make(chan time.Time, 1)
	a.waited[[6]byte(mac)] = at
	return at
}

// tell passes on what the kernel says of set allow.
func (a *allowances) tell(told []netlink.Message, now time.Time) {
	const added, family = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWSETELEM, 4
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range told {
		if m.Header.Type != added || len(m.Data) < family || !bytes.Contains(m.Data, []byte("allow\x00")) {
			continue
		}
		for mac, at := range a.waited {
			if bytes.Contains(m.Data[family:], mac[:]) {
				delete(a.waited, mac)
				select {
				case at <- now:
				default: // each is told once, and its channel has room for one
				}
			}
		}
	}
}

// TestFiguresByNftables and TestFiguresByIptables take what clients see of
// leaders that are killed, stopped, and end as they should.
func TestFiguresByNftables(t *testing.T) { handOvers(t, "nftables") }

func TestFiguresByIptables(t *testing.T) { handOvers(t, "iptables") }

func handOvers(t *testing.T, driver string) {
	f, trials := measured(t)
	g := gateKind{machines: siteMachines}.build(t, driver)
	g.wait(t)
	for range trials {
		g.measure(f, "kill", (*Peer).Kill9, (*Peer).Start)
		g.measure(f, "stop", (*Peer).Pause, (*Peer).Cont)
		g.measure(f, "planned", (*Peer).Stop, (*Peer).Start)
	}
	overlaps := 0.0
	for _, n := range slices.Concat(f["door.overlaps"], f["address.overlaps"]) {
		overlaps += n
	}
	testenv.Count(t, "handover."+driver, float64(len(f["door.overlaps"])))
	testenv.Count(t, "handover."+driver+"_overlaps", overlaps)
}

// TestFiguresOverIPv6 takes the same of an IPv6 address.
func TestFiguresOverIPv6(t *testing.T) {
	f, trials := measured(t)
	g := gateKind{machines: siteMachines, six: true}.build(t, "nftables")
	g.wait(t)
	for range trials {
		g.measure(f, "kill", (*Peer).Kill9, (*Peer).Start)
		g.measure(f, "planned", (*Peer).Stop, (*Peer).Start)
	}
}

// wait makes a machine wait for its ramdisk.
func (g *gateLab) wait(t *testing.T) {
	g.listed()
	g.waits(t)
}

// measure does something to the leader, waits until another host answers, and
// undoes it. What the clients saw goes into the figures.
func (g *gateLab) measure(f figures, what string, do, undo func(*Peer)) {
	g.t.Helper()
	began, old := g.trouble(do, undo)
	g.listed()
	for name, a := range map[string]*asker{"door": g.allowed, "address": g.address} {
		h := judge(a.since(began.Add(-calm)), old)
		g.t.Logf("%s of host %d: %s: %v", what, old, a.name, h)
		f.add(what+"."+name, h.gap)
		f.add(what+"."+name+".lasted", max(0, lastBy(a.since(began), old).Sub(began)))
		f[name+".overlaps"] = append(f[name+".overlaps"], float64(h.overlap))
		f[name+".again"] = append(f[name+".again"], float64(h.again))
	}
}

// TestFiguresOfKeepalived takes what a client sees of another program that keeps
// an address on one of three hosts, when its master is killed, and stopped.
func TestFiguresOfKeepalived(t *testing.T) {
	f, trials := measured(t)
	testenv.NeedRoot(t, "ip")
	if !program.Installed("/usr/sbin/keepalived") {
		program.Install(t, "keepalived", "keepalived")
	}
	k := newVRRP(t)
	for range trials {
		k.measure(f, "kill", syscall.SIGKILL)
		k.measure(f, "stop", syscall.SIGSTOP)
	}
}

// vrrp is three hosts with a keepalived each, at its defaults.
type vrrp struct {
	t       *testing.T
	net     *Net
	dir     string
	address string
	hosts   []*Host
	daemons map[int]*program.Process
	asker   *asker
}

func newVRRP(t *testing.T) *vrrp {
	t.Helper()
	v := &vrrp{t: t, net: NewNet(t), dir: t.TempDir(), daemons: make(map[int]*program.Process)}
	v.address = v.net.site(floatingHost)
	for n := 1; n <= 3; n++ {
		h := v.net.Host(n)
		v.hosts = append(v.hosts, h)
		v.start(h)
	}
	v.asker = v.net.Host(clientHost).askFor(t, "the address of keepalived", v.address)
	return v
}

// start runs keepalived on a host, in the foreground.
func (v *vrrp) start(h *Host) {
	v.t.Helper()
	file := func(kind string) string { return filepath.Join(v.dir, fmt.Sprintf("%d.%s", h.number, kind)) }
	text := fmt.Sprintf(
		"global_defs {\n router_id host%d\n}\nvrrp_instance site {\n state BACKUP\n interface %s\n virtual_router_id 51\n priority %d\n"+
			" advert_int 1\n virtual_ipaddress {\n  %s/32 dev %s\n }\n}\n", h.number, Site, 100+h.number, v.address, Site)
	testenv.Must(v.t, os.WriteFile(file("conf"), []byte(text), 0o600))
	v.daemons[h.number] = program.Run(v.t, h.Command("keepalived", "--dont-fork", "--vrrp", "--use-file="+file("conf"),
		"--pid="+file("pid"), "--vrrp_pid="+file("vrrp")), syscall.SIGKILL)
}

// signal sends s to every process of the host: keepalived is two.
func (v *vrrp) signal(h *Host, s syscall.Signal) {
	v.t.Helper()
	pids, err := exec.Command("ip", "netns", "pids", v.net.ns(h.number)).Output()
	testenv.Must(v.t, err)
	for _, word := range strings.Fields(string(pids)) {
		pid, err := strconv.Atoi(word)
		if err == nil {
			err = syscall.Kill(pid, s)
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			v.t.Fatalf("signal host %d: %v", h.number, err)
		}
	}
}

// measure sends a signal to the master, and looks for a while at who has the
// address.
func (v *vrrp) measure(f figures, what string, s syscall.Signal) {
	v.t.Helper()
	var old *Host
	eventually(v.t, growLimit, "one host has the address", func() error {
		all := v.asker.since(time.Now().Add(-calm))
		for _, h := range v.hosts {
			if n := steady(all, h.number); n == len(all) && n > 1 {
				old = h
				return nil
			}
		}
		return fmt.Errorf("%d of %d times somebody did", answered(all), len(all))
	})
	began := time.Now()
	v.signal(old, s)
	other := func(one asked) bool {
		return slices.ContainsFunc(one.by, func(host int) bool { return host != old.number })
	}
	eventually(v.t, growLimit, "another host takes the address", func() error {
		if count(v.asker.since(began), other) == 0 {
			return errors.New("none did")
		}
		return nil
	})
	testwait.Elapse(v.t, lookOn, "see for how long both have the address")
	all := v.asker.since(began)
	taken := all[slices.IndexFunc(all, other)].sent
	f.add(what+".taken", taken.Sub(began))
	h := judge(all, old.number)
	f.add(what+".both", h.late)
	v.t.Logf("%s of host %d: another had the address after %v, both for %v", what, old.number, taken.Sub(began), h.late)
	v.undo(old, s)
}

// undo lets the old master go on.
func (v *vrrp) undo(h *Host, s syscall.Signal) {
	v.t.Helper()
	if s == syscall.SIGSTOP {
		v.signal(h, syscall.SIGCONT)
		return
	}
	testenv.Must(v.t, v.daemons[h.number].Wait(growLimit))
	_ = h.Command("ip", "addr", "del", v.address+"/32", "dev", string(Site)).Run() // fails where it was not left
	v.start(h)
}
