//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/sandbox/machine"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// What an upgrade is to keep to (docs/upgrade.md).
const (
	apiGap = time.Second
	pxeGap = time.Second
)

// rolling is three hosts that are upgraded one after the other, from the last
// release to the binary under test, and back, while machines boot and clients call.
type rolling struct {
	*gateLab
	old     string // the binary of the last release
	next    string // the binary they are upgraded to
	tag     string // what they run at first
	before  int    // the log version of that
	fleet   *machine.Fleet
	callers []*caller
	load    *Load

	// excused are times that do not count: v0.1.0 does not shut its door before it
	// hands leadership on by command, so the next one waits. Nobody needs that
	// command to upgrade.
	excused []span

	burst  int // machines in each state at each stop
	stock  []openstack.Machine
	ended  []openstack.Machine // they were introspected and have finished, or must
	failed []openstack.Machine // an operator ended their introspection
}

// newRolling starts three peers of the last release, with so many machines in
// each state at each stop of a peer.
func newRolling(t *testing.T, burst int) *rolling {
	r := &rolling{next: os.Getenv(BinaryEnv), burst: burst}
	r.old, r.tag = lastRelease(t)
	const stops, kinds, known = 9, 3, 3 // each stop takes new ones that wait, start and are processed; six go to mixed
	r.gateLab = gateKind{
		machines: known + (stops*kinds+stops+3)*burst + 6,
		// As many are in the middle of something at once.
		env: []string{"TRIVET_INSPECTION_WORKERS=64", "TRIVET_LEASE_ENABLED=true"},
		furnish: func(p *Peer) {
			p.Binary = r.old
		},
	}.build(t, "nftables")
	r.stock = r.machines[known:]
	r.Introspect(r.machines[:1]) // it boots all the time, and asks for an offer
	r.allowed = r.boot(t, r.machines[0])
	r.settled()
	r.fleet = r.Fleet(nil, r.floating+":5050")
	address := r.floating + ":5050"
	node := "/v1/introspection/" + r.machines[0].UUID
	r.callers = []*caller{
		calls(t, "one node, 50 a second, kept connection", address, node, 20*time.Millisecond, false),
		calls(t, "one node, 20 a second, new connections", address, node, 50*time.Millisecond, true),
		calls(t, "all nodes, 2 a second", address, "/v1/introspection?limit=50", 500*time.Millisecond, true),
	}
	r.load = r.Write(2)
	return r
}

// take takes machines that nobody has introspected.
func (r *rolling) take(n int) (taken []openstack.Machine) {
	r.t.Helper()
	if len(r.stock) < n {
		r.t.Fatalf("%d machines are left of %d, %d are wanted", len(r.stock), len(r.machines), n)
	}
	taken, r.stock = r.stock[:n], r.stock[n:]
	return taken
}

// lives lets machines boot that were switched on.
func (r *rolling) lives(machines []openstack.Machine) {
	for _, m := range machines {
		r.fleet.Add(m.Hardware())
		r.fleet.Power(m.UUID, "power on")
	}
}

// populate lets machines end: most well, some because somebody said so.
func (r *rolling) populate() {
	r.t.Helper()
	done, failed := r.take(5*r.burst), r.take(r.burst)
	for _, m := range done {
		r.fleet.Add(m.Hardware())
	}
	r.Introspect(done)
	r.Introspect(failed)
	r.WaitState(2*endLimit, failed, "waiting")
	for _, m := range failed {
		err := r.Anywhere(electLimit, "abort "+m.Name, func(p *Peer) error { return p.Abort(m.UUID) })
		testenv.Must(r.t, err)
	}
	r.WaitState(endLimit, failed, "error")
	r.MustFinish(2*endLimit, done)
	r.ended, r.failed = append(r.ended, done...), append(r.failed, failed...)
}

// amid brings machines into every state and calls stop at that moment; what was
// held goes on shortly after, and all of them must finish.
func (r *rolling) amid(stop func()) {
	r.t.Helper()
	waiting, starting, processing := r.take(r.burst), r.take(r.burst), r.take(r.burst)
	again := r.ended[:r.burst]
	r.Introspect(slices.Concat(waiting, processing))
	r.WaitState(endLimit, slices.Concat(waiting, processing), "waiting")

	both := among(slices.Concat(processing, again), "")
	busy := r.Tap.Inject(wiretap.Fault{Method: http.MethodPatch, Path: both, Hold: true})
	slow := r.Tap.Inject(wiretap.Fault{Method: http.MethodPut, Path: among(starting, "/states/power"), Hold: true})
	r.Introspect(starting)
	if !r.reapply(again) {
		again = nil
	}
	r.lives(processing)
	r.WaitState(endLimit, starting, "starting")
	r.WaitState(endLimit, processing, "processing")
	r.WaitState(endLimit, again, "reapplying")
	_, all, err := r.InState(nil)
	testenv.Must(r.t, err)
	r.t.Logf("at the stop: %s", summary(r.machines, all))
	go func() { // while stop is at it: a worker that is told to stop ends what it has begun
		testwait.Rest(r.t.Context(), 200*time.Millisecond)
		busy.Lift()
		slow.Lift()
	}()
	stop()
	for _, m := range starting {
		r.fleet.Add(m.Hardware())
	}
	r.WaitState(2*endLimit, starting, "waiting", "processing", "finished")
	r.lives(slices.Concat(waiting, starting))
	r.ended = slices.Concat(r.ended, waiting, starting, processing)
	r.MustFinish(2*endLimit, r.ended)
}

// reapply processes the data of machines again. While a peer is a member that
// cannot, all others refuse and name it, and it reports false.
func (r *rolling) reapply(machines []openstack.Machine) bool {
	r.t.Helper()
	for k, m := range machines {
		p := r.Peers[k%len(r.Peers)]
		err := p.accepted("POST", "/v1/introspection/"+m.UUID+"/data/unprocessed", nil, nil)
		var refusal *httpapi.Refusal
		_, least := r.versions()
		switch {
		case err == nil && least < 2:
			r.t.Errorf("older-workers-are-asked: %s processes data again, while a peer does not know how", p.Name)
		case err != nil && least >= 2:
			r.t.Fatalf("%s: reapply %s: %v", p.Name, m.Name, err)
		case errors.As(err, &refusal) &&
			(refusal.Status == http.StatusMethodNotAllowed || strings.Contains(refusal.Body, "upgrade trivet")):
			return false
		case err != nil:
			r.t.Fatalf("%s: reapply %s: %v; want it to name who is to be upgraded", p.Name, m.Name, err)
		}
	}
	return true
}

// install does to one host what docs/upgrade.md says, with either binary: see that it
// may be stopped, install, restart, and wait until the next one may be.
func (r *rolling) install(p *Peer, binary string) {
	r.t.Helper()
	r.safe()
	began := time.Now()
	r.amid(func() {
		p.signal(syscall.SIGTERM) // systemctl restart trivet
		if code := p.WaitExit(15 * time.Second); code != 0 {
			r.t.Errorf("%s exited with %d", p.Name, code)
		}
		p.Binary = binary
		back := time.Now()
		p.Start()
		r.safe()
		r.t.Logf("%s: one more may be stopped %v after its start", p.Name, time.Since(back).Round(time.Millisecond))
	})
	r.t.Logf("%s runs the other version after %v", p.Name, time.Since(began).Round(time.Millisecond))
}

// installAll does so to all hosts, the leader last: one hand-over less. between is
// called while versions differ.
func (r *rolling) installAll(binary string, between func()) {
	r.t.Helper()
	for i, p := range append(r.Followers(), r.WaitLeader()) {
		r.install(p, binary)
		text, least := r.versions()
		r.t.Logf("members: %s; log version %d", text, least)
		if least != r.before {
			r.t.Errorf("raised-by-order-alone: the log version was %d and is %d: %s", r.before, least, text)
		}
		if i < 2 {
			between()
		}
	}
}

// finalize ends the upgrade, and is refused before while a host runs the old binary.
func (p *Peer) finalize(dry bool) error {
	return p.Call("POST", "/v1/upgrade/finalize", admin.Finalize{DryRun: dry}, &admin.UpgradeState{})
}

// safe waits until one more peer may be stopped.
func (r *rolling) safe() {
	r.t.Helper()
	r.Eventually(growLimit, "one more may be stopped", func() error {
		for _, p := range r.Peers {
			s, err := p.Status()
			if err != nil {
				return err
			}
			if !s.Ready || s.Quorum.CanLose < 1 {
				return fmt.Errorf("%s: ready: %v, %+v", p.Name, s.Ready, s.Quorum)
			}
		}
		return nil
	})
}

// versions returns what the members are known to run, and the least log version.
func (r *rolling) versions() (text string, least int) {
	r.t.Helper()
	var members []admin.Member
	err := r.Anywhere(electLimit, "list members",
		func(p *Peer) error { return p.Call("GET", "/v1/members", nil, &members) })
	testenv.Must(r.t, err)
	var words []string
	for _, m := range members {
		words = append(words, fmt.Sprintf("%s %d", m.Name, m.Version))
		if least == 0 || m.Version < least {
			least = m.Version
		}
	}
	return strings.Join(words, ", "), least
}

// confirmSync proposes a kind of entry that a binary of log version 2 does not know. The
// state refuses it, for there is nothing to confirm.
func (p *Peer) confirmSync() error {
	return p.Call("PUT", "/v1/nodes/sync", map[string]string{"digest": "none"}, nil)
}

// span is a stretch of time.
type span struct{ from, to time.Time }

// pardoned does something whose gaps do not count.
func (r *rolling) pardoned(do func()) {
	from := time.Now()
	do()
	r.settled()
	r.excused = append(r.excused, span{from.Add(-askEvery), time.Now()})
}

// excuses reports whether a gap that began then does not count.
func (r *rolling) excuses(began time.Time) bool {
	return slices.ContainsFunc(r.excused, func(s span) bool { return began.After(s.from) && began.Before(s.to) })
}

// verdict ends the load and looks at all that was seen.
func (r *rolling) verdict() {
	r.t.Helper()
	r.settled()
	defer r.tell()
	r.load.Verify(r.WaitLeader())
	for _, c := range r.callers {
		c.end()
		c.verdict(r.t, apiGap, r.excuses)
	}
	for _, a := range []*asker{r.allowed, r.address} {
		gap, both := silence(a.since(time.Time{}), r.excuses)
		r.t.Logf("%s: longest without an answer %v, two hosts at once %d times", a.name, gap.Round(time.Millisecond), both)
		r.longest.took(r.t, r.figure("upgrade", r.asks(a), "gap"), gap, pxeGap)
		if both > 0 {
			r.t.Errorf("one-door: %s: two hosts answered %d times", a.name, both)
		}
	}
	if n := answered(r.denied.since(time.Time{})); n > 0 {
		r.t.Errorf("one-door: the machine on the blacklist got %d offers", n)
	}
	r.MustFinish(endLimit, r.ended)
	for node, report := range r.WaitEnd(endLimit, r.failed) {
		if report.State == "error" && report.Reason() != "Canceled by operator" {
			r.t.Errorf("node %s ended in error: %s", node, report.Reason())
		}
	}
	r.WaitSame()
}

// tell prints, if something was amiss, when peers led, and had door and address.
func (r *rolling) tell() {
	if !r.t.Failed() {
		return
	}
	var lines []string
	for _, p := range r.Peers {
		for line := range strings.Lines(p.Log()) {
			if turning.MatchString(line) {
				lines = append(lines, strings.TrimSuffix(line, "\n")+" peer="+p.Name)
			}
		}
	}
	slices.Sort(lines) // they begin with the time
	r.t.Log("what peers did:\n" + strings.Join(lines, "\n"))
	for _, a := range []*asker{r.allowed, r.address} {
		all := a.since(time.Time{})
		for n := 1; n < len(all); n++ {
			if from := all[n-1]; len(from.by) > 0 && len(all[n].by) == 0 {
				r.t.Logf("%s: no answer from %v on", a.name, from.sent.UTC().Format("15:04:05.000"))
			}
		}
	}
}

var turning = regexp.MustCompile(`msg=("leadership|"stepping|"PXE service|"floating|stopp|serving|"fitness)`)

// silence returns the longest time without an answer between the first one and
// the last question, but for what is excused, and how often more than one host answered.
func silence(all []asked, excused func(time.Time) bool) (longest time.Duration, both int) {
	var last time.Time
	for _, one := range all {
		switch {
		case len(one.by) > 1:
			both++
			fallthrough
		case len(one.by) == 1:
			if !last.IsZero() && !excused(last) {
				longest = max(longest, one.sent.Sub(last))
			}
			last = one.sent
		}
	}
	return longest, both
}
