//go:build e2e

package labtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestIronic39Lists gives the agent's own code the list of all hosts, while hosts are killed, cut
// off from the others and stopped: TRIVET_E2E_KILLS of them, every other time two at once. The
// document of a machine is the same in each round, within a minute. Each inspection gets it, once.
func TestIronic39Lists(t *testing.T) {
	faults := numberOf(t, "TRIVET_E2E_KILLS", 12)
	s := newSite39(t, openstack.StartIronic39(t, ""), nil)
	rng := rand.New(rand.NewPCG(55, 2))
	machines := s.inspect(0, 6)
	for round := 1; faults > 0; round++ {
		if round > 1 {
			s.Ironic.Inspect(machines)
		}
		calling := s.callList(machines)
		hosts := rng.Perm(len(s.Peers))[:1+round%2]
		faults -= len(hosts)
		for _, n := range hosts {
			s.strike(s.Peers[n], rng)
		}
		for _, n := range hosts {
			s.mend(s.Peers[n])
		}
		if err := calling(); err != nil {
			t.Fatalf("list-delivered: round %d: %v", round, err)
		}
		s.Ironic.WaitState(machines, "manageable")
		for _, m := range machines {
			if n := s.Ironic.Finished(m.UUID); n != round {
				t.Fatalf("once: Ironic has finished %d inspections of %s in %d rounds", n, m.Name, round)
			}
		}
		s.WaitVoters(3)
		if round%10 == 0 || faults <= 0 {
			t.Logf("round %d: each document was taken once; %d faults are left", round, max(0, faults))
		}
	}
}

// callList posts the documents of machines, each to the list of all hosts' ramdisk ports.
func (s *site39) callList(machines []openstack.Machine) (wait func() error) {
	var urls []string
	for _, p := range s.Peers {
		host, _, err := net.SplitHostPort(p.API)
		testenv.Must(s.t, err)
		urls = append(urls, "http://"+net.JoinHostPort(host, "5055")+continuePath)
	}
	var calling sync.WaitGroup
	var failed error
	calling.Go(func() {
		failed = httpapi.Parallel(len(machines), len(machines), func(n int) error {
			p, err := s.Ironic.Agent(strings.Join(urls, ","), machines[n].Inventory(), 30*time.Second)
			if err == nil && p.Node() != machines[n].UUID {
				err = fmt.Errorf("the agent of %s has %+v, node %q", machines[n].Name, p, p.Node())
			}
			return err
		})
	})
	return func() error { calling.Wait(); return failed }
}

// strike kills, cuts off or stops a peer, for shorter and longer than it waits before it refuses.
func (s *site39) strike(p *Peer, rng *rand.Rand) {
	switch rng.IntN(3) {
	case 0:
		p.Kill9()
	case 1:
		p.Host.Cut(Peers)
	default:
		p.Pause()
	}
	testwait.Elapse(s.t, time.Duration(rng.IntN(9000))*time.Millisecond, p.Name+" stays away")
}

// mend takes back what strike did, whatever it was.
func (s *site39) mend(p *Peer) {
	p.Host.Heal()
	if p.aside {
		p.Cont()
	}
	if !p.proc.Running() {
		p.Start()
	}
}
