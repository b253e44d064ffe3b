//go:build e2e

package labtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// stepLimit is what one step of Ironic, or one post of the agent, may take.
const stepLimit = time.Minute

// continuePath is where ramdisks post their documents.
const continuePath = "/v1/continue_inspection"

// site39 is a site of today: Ironic inspects, three peers carry what ramdisks send.
type site39 struct {
	*SiteLab
	Ironic *openstack.Ironic39
	began  time.Time
}

// newSite39 starts the peers on hosts of their own, with the packet filter of each; more completes
// a peer, if not nil, and env are options besides.
func newSite39(t *testing.T, ironic *openstack.Ironic39, more func(*Peer), env ...string) *site39 {
	t.Helper()
	s := &site39{NewHosts(t).site(siteKind{ironic: ironic.Addr, driver: "nftables", furnish: more,
		env: append([]string{"TRIVET_INSPECTION_CONTINUE_INSPECTION=relay", "TRIVET_FIREWALL_INSPECT_INTERFACES=agent",
			"TRIVET_FIREWALL_SYNC_PERIOD=1s", "TRIVET_IRONIC_TIMEOUT=10s"}, env...)}), ironic, time.Now()}
	s.Trio()
	return s
}

// inspect enrolls machines, and begins their inspection once each peer knows their ports: then a
// document is committed before Ironic is asked.
func (s *site39) inspect(first, n int) []openstack.Machine {
	s.t.Helper()
	machines := s.Ironic.Enroll(first, n)
	for _, m := range machines {
		for _, p := range s.Running() {
			s.Eventually(growLimit, p.Name+" knows the port of "+m.Name, func() error {
				var rows []api.Explanation
				err := p.Call("GET", "/v1/firewall/explain/"+m.MAC, nil, &rows)
				if err != nil || len(rows) == 0 || rows[0].Node != m.UUID {
					return errors.Join(err, fmt.Errorf("%+v", rows))
				}
				return nil
			})
		}
	}
	s.Ironic.Inspect(machines)
	return machines
}

// url is where a ramdisk finds a peer.
func (p *Peer) url() string { return "http://" + p.API + continuePath }

// anyPeer spreads ramdisks over the peers that run.
func (s *site39) anyPeer(n int) string {
	running := s.Running()
	return running[n%len(running)].url()
}

// relays are the documents of a machine, as a peer knows them.
func (l *Lab) relays(node string) (of []admin.Relay, err error) {
	var all []admin.Relay
	err = l.Anywhere(electLimit, "list relays", func(p *Peer) error { return p.Call("GET", "/v1/relays", nil, &all) })
	for _, r := range all {
		if r.Node == node {
			of = append(of, r)
		}
	}
	return of, err
}

// inspected wants each machine manageable, with the inventory that its own ramdisk sent, taken by
// Ironic once; and one document of each, told as taken.
func (s *site39) inspected(machines []openstack.Machine, times int) {
	s.t.Helper()
	s.Ironic.WaitState(machines, "manageable")
	for _, m := range machines {
		if mac, err := s.Ironic.Inventory(m.UUID); err != nil || mac != m.MAC {
			s.t.Errorf("%s: Ironic has the inventory of %q, want %q (%v)", m.Name, mac, m.MAC, err)
		}
		if n := s.Ironic.Finished(m.UUID); n != times {
			s.t.Errorf("once: Ironic has finished %d inspections of %s, want %d", n, m.Name, times)
		}
		s.Eventually(electLimit, "the relay of "+m.Name+" is told as taken", func() error {
			of, err := s.relays(m.UUID)
			if err != nil || len(of) != times || of[0].State != "taken" {
				return errors.Join(err, fmt.Errorf("%+v", of))
			}
			return nil
		})
	}
}

// TestIronic39 is a site of Ironic 39 and the agent's own code. Its parts use other machines.
func TestIronic39(t *testing.T) {
	s := newSite39(t, openstack.StartIronic39(t, ""), nil)
	for _, part := range []struct {
		name string
		run  func(*site39)
	}{
		{"inspects", (*site39).inspects},
		{"enrols an unknown machine", (*site39).enrols},
		{"leader killed before the callback", (*site39).killedBefore},
		{"leader killed before the document is handed on", (*site39).killedHolding},
		{"leader killed between two attempts", (*site39).killedBetween},
		{"leader killed before it records that Ironic took it", (*site39).killedAfter},
		{"Ironic stopped", (*site39).ironicStopped},
		{"Ironic killed", (*site39).ironicKilled},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(s.within(t)) }) {
			return // the site is not what the next part expects
		}
	}
	s.WaitSame()
}

// within is the same site for a part of the test.
func (s *site39) within(t *testing.T) *site39 {
	t.Cleanup(s.Tap.Heal)
	lab, site := *s.Lab, *s.SiteLab
	lab.t, site.Lab = t, &lab
	return &site39{&site, s.Ironic.For(t), s.began}
}

func (s *site39) inspects() {
	machines := s.inspect(0, 3)
	s.follows(machines[0], "accept")
	s.Ironic.Agents(machines, s.anyPeer)
	s.inspected(machines, 1)
	s.follows(machines[0], "drop")
}

// enrols posts a document of a machine that nobody knows, twice.
func (s *site39) enrols() {
	before, err := s.Ironic.NodeIDs()
	testenv.Must(s.t, err)
	stranger := openstack.MachineNumber(900)
	var told []string
	for range 2 {
		p, err := s.Ironic.Agent(s.Followers()[0].url(), stranger.Inventory(), stepLimit)
		if err != nil || p.Node() == "" {
			s.t.Fatalf("the agent of an unknown machine has %+v (%v)", p, err)
		}
		told = append(told, p.Node())
	}
	after, err := s.Ironic.NodeIDs()
	if err != nil || told[0] != told[1] || len(after) != len(before)+1 {
		s.t.Errorf("enrolled: the agent was told %v; Ironic has %d nodes, had %d (%v)", told, len(after), len(before), err)
	}
	s.Eventually(stepLimit, "Ironic has the inventory of the machine that it enrolled", func() error {
		mac, err := s.Ironic.Inventory(told[0])
		if err == nil && mac != stranger.MAC {
			err = fmt.Errorf("it has that of %q", mac)
		}
		return err
	})
}

func (s *site39) killedBefore() {
	machines := s.inspect(10, 1)
	follower, dead := s.Followers()[0], s.WaitLeader()
	dead.Kill9()
	s.Ironic.Agents(machines, func(int) string { return follower.url() })
	s.inspected(machines, 1)
	s.revive(dead)
}

// revive starts a peer that was killed and waits until it votes again.
func (s *site39) revive(dead *Peer) {
	s.t.Helper()
	dead.Start()
	s.WaitVoters(3)
}

// killedHolding kills the leader when its attempt is in the log and nothing of it has reached
// Ironic.
func (s *site39) killedHolding() {
	machines := s.inspect(20, 1)
	held := s.Tap.Inject(wiretap.Fault{Method: "POST", Path: continuePath, Body: machines[0].MAC, Hold: true})
	s.Ironic.Agents(machines, func(int) string { return s.Followers()[0].url() })
	s.Eventually(stepLimit, "the leader's attempt is on its way", func() error {
		if held.Held() == 0 {
			return errors.New("no call is held")
		}
		return nil
	})
	dead := s.WaitLeader()
	dead.Kill9()
	s.Eventually(stepLimit, "the attempt of the dead leader is gone", func() error {
		for _, c := range s.Tap.Calls(s.began, "POST", continuePath) {
			if c.Door == dead.Name && c.Took == 0 {
				return fmt.Errorf("%d calls are held", held.Held())
			}
		}
		return nil
	})
	held.Lift()
	s.inspected(machines, 1)
	s.revive(dead)
}

// killedBetween kills the leader while Ironic has no conductor for the document.
func (s *site39) killedBetween() {
	machines := s.inspect(30, 1)
	busy := s.Tap.Inject(wiretap.Fault{Method: "POST", Path: continuePath, Body: machines[0].MAC, Status: 400,
		Answer: `{"error_message": "{\"faultstring\": \"No valid host was found. Reason: no conductor\"}"}`})
	s.Ironic.Agents(machines, func(int) string { return s.Followers()[0].url() })
	s.Eventually(stepLimit, "two attempts have failed", func() error {
		if busy.Met() < 2 {
			return fmt.Errorf("%d attempts", busy.Met())
		}
		return nil
	})
	dead := s.WaitLeader()
	dead.Kill9()
	busy.Lift()
	s.inspected(machines, 1)
	s.revive(dead)
}

// killedAfter kills the leader when Ironic has taken a document and before the answer has left
// the tap: no peer knows that Ironic has it.
func (s *site39) killedAfter() {
	machines := s.inspect(40, 1)
	var once sync.Once
	killed := make(chan *Peer, 1) // what the one call of once sends
	s.Tap.Watch(func(c wiretap.Call) {
		if c.Status != 202 || c.Method != "POST" || !strings.Contains(string(c.Body), machines[0].MAC) {
			return
		}
		once.Do(func() {
			for _, p := range s.Peers {
				if p.Name == c.Door && p.proc.End(syscall.SIGKILL, electLimit) == nil {
					testwait.Send(s.t, killed, p, "the peer that was killed") // there is room for one
				}
			}
		})
	})
	defer s.Tap.Watch(nil)
	s.Ironic.Agents(machines, func(int) string { return s.Followers()[0].url() })
	dead, err := testwait.Take(stepLimit, killed, "the leader is killed when Ironic has the document")
	testenv.Must(s.t, err)
	s.inspected(machines, 1)
	of, err := s.relays(machines[0].UUID)
	if err != nil || len(of) != 1 || !strings.Contains(of[0].Reason, "the answer was lost") || of[0].Tries < 2 {
		s.t.Errorf("lost-answer: %+v (%v): the leader was not killed in time", of, err)
	}
	s.revive(dead)
}

func (s *site39) ironicStopped() {
	s.away(50, 20*time.Second, (*openstack.Ironic39).Pause, (*openstack.Ironic39).Cont)
}

func (s *site39) ironicKilled() {
	s.away(60, 20*time.Second, (*openstack.Ironic39).Kill9, (*openstack.Ironic39).Start)
}

// awayEnv is for how long Ironic is away in TestIronic39AwayForLong, as in 1h.
const awayEnv = "TRIVET_E2E_AWAY"

// TestIronic39AwayForLong: Ironic is killed, and away for as long as is asked, with what
// docs/migrate.md says to raise for it. No inspection is lost, nor asked for again.
func TestIronic39AwayForLong(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv(awayEnv))
	if err != nil {
		t.Skipf("it waits: %s=1h", awayEnv)
	}
	wait := long + 30*time.Minute
	ironic := openstack.StartIronic39(t, fmt.Sprintf("[conductor]\ninspect_wait_timeout = %.0f\n", wait.Seconds()))
	s := newSite39(t, ironic, nil, "TRIVET_INSPECTION_TIMEOUT="+wait.String())
	s.away(0, long, (*openstack.Ironic39).Kill9, (*openstack.Ironic39).Start)
	s.WaitSame()
}

// away posts the documents of six machines while Ironic is away, and kills the leader meanwhile.
func (s *site39) away(first int, long time.Duration, leave, return_ func(*openstack.Ironic39)) {
	machines := s.inspect(first, 6)
	leave(s.Ironic)
	gone := time.Now()
	s.Ironic.Agents(machines[:3], s.anyPeer)
	dead := s.WaitLeader()
	dead.Kill9()
	s.WaitLeader()
	s.Ironic.Agents(machines[3:], s.anyPeer)
	s.revive(dead)
	testwait.Elapse(s.t, time.Until(gone.Add(long)), "Ironic stays away")
	return_(s.Ironic)
	s.inspected(machines, 1)
}

// TestIronic39ServesRamdisksElsewhere is a site whose public API refuses ramdisks: the relay ends
// with the option to write, doctor names the endpoint, and the option mends it without a restart.
func TestIronic39ServesRamdisksElsewhere(t *testing.T) {
	ironic := openstack.StartIronic39(t, "enable_ramdisk_endpoints = False\n")
	ironic.StartRamdisks()
	other := wiretap.New(t, ironic.Ramdisks)
	mend := func(p *Peer) {
		door := other.Door(p.Name, net.JoinHostPort(p.lab.net.Gateway, "0"))
		p.configure("ironic:\n  ramdisk_endpoint: http://" + door + "\n")
		p.signal(syscall.SIGHUP)
	}
	s := newSite39(t, ironic, func(p *Peer) { p.configure("# a peer of the lab\n") })
	machines := s.inspect(0, 2)
	ironic.Agents(machines[:1], s.anyPeer)
	s.Eventually(electLimit, "the relay ends", func() error {
		of, err := s.relays(machines[0].UUID)
		if err != nil || len(of) != 1 || of[0].State != "failed" || of[0].Tries != 1 ||
			!strings.HasPrefix(of[0].Reason, "ironic.endpoint refuses what ramdisks send: Access was denied to the following "+
				"resource: /v1/continue_inspection; write as ironic.ramdisk_endpoint the URL") {
			return errors.Join(err, fmt.Errorf("%+v", of))
		}
		return nil
	})
	s.doctorSays("refuses what ramdisks send: 403: ironic.endpoint refuses", true)
	for _, p := range s.Peers {
		mend(p)
	}
	s.doctorSays("refuses what ramdisks send", false)
	ironic.Agents(machines[1:], s.anyPeer)
	s.inspected(machines[1:], 1)
	refused, err := ironic.State(machines[0])
	if err != nil || refused != "inspect wait" {
		t.Errorf("the machine whose document was refused is %q (%v)", refused, err)
	}
	// Another document of the same machine is taken now; the same bytes within a minute are a repeat.
	later := strings.Replace(string(machines[0].Inventory()), `{"inventory"`, `{"again":1,"inventory"`, 1)
	p, err := ironic.Agent(s.Followers()[0].url(), []byte(later), stepLimit)
	if err != nil || p.Node() != machines[0].UUID {
		t.Fatalf("the agent has %+v (%v)", p, err)
	}
	ironic.WaitState(machines, "manageable")
	if n := ironic.Finished(machines[0].UUID); n != 1 {
		t.Errorf("once: Ironic has finished %d inspections", n)
	}
	s.withoutConductor()
}

// withoutConductor posts a document while the API for ramdisks lives and neither conductor nor
// public API does: what Ironic answers is not its last word. The leader dies meanwhile.
func (s *site39) withoutConductor() {
	machines := s.inspect(10, 1)
	s.Ironic.Stop()
	s.Ironic.Agents(machines, s.anyPeer)
	s.Eventually(stepLimit, "two attempts have failed", func() error {
		of, err := s.relays(machines[0].UUID)
		if err != nil || len(of) != 1 || of[0].State != "pending" || of[0].Tries < 2 {
			return errors.Join(err, fmt.Errorf("%+v", of))
		}
		return nil
	})
	dead := s.WaitLeader()
	dead.Kill9()
	s.Ironic.Start()
	s.inspected(machines, 1)
	s.revive(dead)
}

// doctorSays waits until doctor finds something on the first peer, or does not.
func (s *site39) doctorSays(part string, want bool) {
	s.t.Helper()
	p := s.Peers[0]
	s.Eventually(growLimit, fmt.Sprintf("doctor says %q: %v", part, want), func() error {
		r := p.Trivet("doctor", "--check", "services", p.On())
		if strings.Contains(r.Out, part) != want {
			return fmt.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
		}
		return nil
	})
}
