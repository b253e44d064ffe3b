package recorder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/test/memlog"
)

// found is what every peer tells of the machine, by codes.
func (s *stage) found() string {
	account, _ := AccountOf(s.log.View(), nodeA)
	var all []string
	for _, f := range account.Findings {
		all = append(all, f.Code)
	}
	return strings.Join(all, " ")
}

// events are those of the machine's boot, oldest first.
func (s *stage) events() string {
	var all []string
	for e := range s.log.View().Events().After(eventring.ID{}) {
		if d := e.Decode(); d.Topic == eventring.TopicBoot {
			all = append(all, d.Action+" "+d.Fields["finding"])
		}
	}
	return strings.Join(all, ", ")
}

func (s *stage) want(what, found string) {
	s.t.Helper()
	if got := s.found(); got != found {
		s.t.Errorf("%s the findings are %q, want %q", what, got, found)
	}
}

func (s *stage) ask() { s.send(ask(s.t, machine1, dhcpv4.MessageTypeDiscover, firmware(7)...)) }

// pass lets time go on, cluster time as well.
func (s *stage) pass(d time.Duration) {
	s.t.Helper()
	for range d / time.Second {
		time.Sleep(time.Second)
		if _, err := s.log.DoAsLeader(fsm.Probe{}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// A boot on its way is no finding, one that stops is, and it is told once, by one entry; it ends
// with what comes next.
func TestFindingsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.led(func() {
			time.Sleep(startWait - 15*time.Second)
			s.want("before its self-test is over", "")
			time.Sleep(30 * time.Second)
			s.want("then", "silent")
			entries := s.log.View().Index()
			time.Sleep(9 * time.Minute)
			if more := s.log.View().Index() - entries; more > 0 {
				t.Errorf("%d entries say of a silent machine that nothing has changed", more)
			}
			s.ask()
			time.Sleep(3 * noteEvery)
			s.want("when it asks", "")
			s.pass(apart + answerWait)
			s.want("when nobody answers", "no-offer")
			s.lease("snponly.efi", firmware(7)...)
			time.Sleep(judgeAfter + 3*noteEvery)
			s.want("when it has an address", "")
			time.Sleep(time.Minute)
			s.want("when it fetches nothing", "not-fetched")
			s.fetch(2070, "snponly.efi", 100, true)
			s.lease("trivet.ipxe", ipxe()...)
			s.fetch(2071, "trivet.ipxe", 0, true)
			s.fetch(2072, "ironic-agent.kernel", 500, true)
			time.Sleep(4 * time.Minute)
			s.want("while its ramdisk starts", "")
			time.Sleep(2 * time.Minute)
			s.want("when it does not call", "no-callback")
		})
		const want = "found silent, cleared silent, found no-offer, found not-fetched, " +
			"cleared not-fetched, found no-callback"
		if got := s.events(); got != want {
			t.Errorf("events are\n%s, want\n%s", got, want)
		}
	})
}

// Firmware that fetched a loader and does not run it, as with Secure Boot, goes on to what it has next.
func TestLoaderThatDoesNotRun(t *testing.T) {
	for name, c := range map[string]struct {
		next func(*stage)
		want string
	}{
		"its disk": {func(*stage) {}, "loader-stopped"},
		"HTTP boot": {func(s *stage) {
			s.send(ask(s.t, machine1, dhcpv4.MessageTypeDiscover,
				dhcpv4.WithOption(dhcpv4.OptClassIdentifier("HTTPClient:Arch:00016:UNDI:003001")),
				dhcpv4.WithOption(dhcpv4.OptClientArch(iana.EFI_X86_64_HTTP))))
			s.send(give(s.t, own, hostAt, machine1, dhcpv4.MessageTypeOffer, ""))
		}, "loader-stopped"},
		"it runs, and is refused its file": {func(s *stage) { s.refuse(2071, "pxelinux.cfg/default") }, "file-refused"},
		"it is iPXE, without a script":     {func(s *stage) { s.lease("", ipxe()...) }, "no-boot-file no-kernel"},
	} {
		finds(t, name, func(s *stage) {
			s.lease("snponly.efi", firmware(iana.EFI_X86_64)...)
			s.fetch(2070, "snponly.efi", 100, true)
			s.pass(time.Second)
			c.next(s)
		}, "", c.want)
	}
}

// A loader that was fetched twice did not run; once may be its first time.
func TestLoaderThatIsFetchedAgain(t *testing.T) {
	for times, want := range map[int]string{1: "", 2: "loop"} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.led(func() {
				for n := range times {
					s.lease("snponly.efi", firmware(iana.EFI_X86_64)...)
					s.fetch(2070+n, "snponly.efi", 100, true)
				}
				s.pass(10 * time.Second)
				s.want(fmt.Sprintf("loader-loops: after %d times", times), want)
			})
		})
	}
}

// A loader has a minute until iPXE asks. What was not heard meanwhile is no finding.
func TestLoaderThatStopsIsTold(t *testing.T) {
	for _, gap := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.led(func() {
				s.lease("snponly.efi", firmware(7)...)
				s.fetch(2070, "snponly.efi", 100, true)
				if gap {
					return
				}
				s.pass(loaderWait - 5*time.Second)
				s.want("loader-stops: before a minute is over", "")
				s.pass(10 * time.Second)
				s.want("loader-stops: then", "loader-stopped")
				s.lease("trivet.ipxe", ipxe()...)
				s.fetch(2071, "ironic-agent.kernel", 100, true)
				s.pass(10 * time.Second)
				s.want("loader-stops: when iPXE comes after all", "")
			})
			if gap {
				s.led(func() {
					s.send(ask(t, machine1, dhcpv4.MessageTypeDiscover)) // the system on its disk, or the ramdisk
					s.pass(2 * loaderWait)
				})
				s.want("loader-stops: not heard by one leader", "")
			}
		})
	}
}

// A machine that was found silent and then asks was heard all the time, by the leader that found
// it and by the next one.
func TestSilenceIsNoGap(t *testing.T) {
	for _, next := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			asks := func() {
				s.ask()
				time.Sleep(3 * noteEvery)
			}
			s.led(func() {
				time.Sleep(startWait + 30*time.Second)
				s.want("of a machine that is off", "silent")
				if !next {
					asks()
				}
			})
			if next {
				s.led(asks)
			}
			if got := told(s.track()); got != "asked" {
				t.Errorf("told is %s, the next leader: %v", got, next)
			}
		})
	}
}

// iPXE that is refused its kernel begins again and again (docs/pxe.md#firmware): that is found once and
// stays, and the track has the steps of one round.
func TestBootLoopIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		const rounds = 30
		s.led(func() {
			for round := range rounds {
				s.lease("trivet.ipxe", ipxe()...)
				s.fetch(2000+round, "trivet.ipxe", 0, true)
				for try := range 4 {
					s.refuse(3000+4*round+try, "ironic-agent.kernel")
					time.Sleep(5 * time.Second)
				}
				if round > 4 {
					s.want("in each round", "file-refused no-kernel")
				}
			}
		})
		if got := s.events(); got != "found file-refused" {
			t.Errorf("events are %s", got)
		}
		want := fmt.Sprint("failed ironic-agent.kernel x", 4*rounds)
		if track := s.track(); track.Dropped > 0 || !strings.Contains(told(track), want) {
			t.Errorf("told is %s, %d dropped", told(track), track.Dropped)
		}
	})
}

// apart is long enough for an event of its own.
const apart = boots.TellEvery + 2*noteEvery

// The next leader, who heard none of it, tells the same, also of a machine that nobody heard; the
// strangers of the one before stay named.
func TestNextLeaderTellsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.led(func() {
			time.Sleep(time.Minute)
			s.send(ask(t, "52:54:00:00:00:99", dhcpv4.MessageTypeDiscover, firmware(7)...))
			time.Sleep(startWait)
		})
		s.want("the first leader:", "silent unknown-mac")
		before, _ := AccountOf(s.log.View(), nodeA)
		s.r = New(s, s, "b", s.r.logger)
		s.led(func() {
			time.Sleep(30 * time.Second)
			s.want("the next leader, at once:", "silent unknown-mac")
			time.Sleep(5 * time.Minute)
		})
		after, _ := AccountOf(s.log.View(), nodeA)
		if fmt.Sprint(before.Findings) != fmt.Sprint(after.Findings) {
			t.Errorf("the findings were %v and are %v", before.Findings, after.Findings)
		}
		if got := s.events(); got != "found silent" {
			t.Errorf("events are %s", got)
		}
	})
}

// A recorder that cannot listen says nothing of silence, one that is switched off nothing at all,
// nor does one in a cluster of an older log version.
func TestDeafRecorderFindsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.r = New(deaf{}, s, "a", s.r.logger)
		s.led(func() { time.Sleep(10 * time.Minute) })
		s.want("a deaf recorder:", "")

		s = newStage(t)
		s.log = memlog.AtVersion(t, 2)
		s.inspect()
		s.led(func() {
			s.ask()
			time.Sleep(10 * time.Minute)
		})
		s.want("in log version 2:", "")
	})
}

type deaf struct{ Wire }

func (deaf) Listen(context.Context, func([]byte, net.HardwareAddr)) error {
	return errors.New("no such device")
}

// What was found ends with the call: of Ironic's own inspection with the document that is passed
// on. Where the inspection ends without one it stays, until the next.
func TestFindingsOfIronicsInspections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.led(func() {
			s.ask()
			time.Sleep(time.Minute)
			s.want("before the inspection ends", "no-offer")
			s.remove()
			time.Sleep(2 * time.Minute)
			s.want("after it ended without a call", "no-offer")
			s.inspect()
			time.Sleep(judgeAgain)
			s.want("at the next inspection", "")
			time.Sleep(startWait)
			s.want("when nothing is heard of that", "silent")
		})
	})
}

func (s *stage) remove() {
	s.t.Helper()
	if _, err := s.log.DoAsLeader(introspection.PutInspected{Remove: []string{nodeA}}); err != nil {
		s.t.Fatal(err)
	}
}

// Thousands of machines that nobody hears cost a bounded number of findings in an entry, one entry a
// second, and then none.
func TestManySilentMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const machines = 15 * introspection.MaxInspectedChanges
		s := newStage(t)
		for at := 0; at < machines; at += introspection.MaxInspectedChanges {
			var put introspection.PutInspected
			for i := at; i < at+introspection.MaxInspectedChanges; i++ {
				put.Nodes = append(put.Nodes, introspection.Inspected{Node: fmt.Sprintf("00000000-0000-4000-8000-%012d", i),
					MACs: []string{fmt.Sprintf("52:54:02:%02x:%02x:%02x", i>>16, i>>8&0xff, i&0xff)}})
			}
			if _, err := s.log.DoAsLeader(put); err != nil {
				t.Fatal(err)
			}
		}
		s.led(func() {
			time.Sleep(startWait + 5*time.Minute)
			entries := s.log.View().Index()
			time.Sleep(5 * time.Minute)
			if more := s.log.View().Index() - entries; more > 0 {
				t.Errorf("%d entries once all is told", more)
			}
		})
		if n := Stopped(s.log.View())["silent"]; n != machines+1 {
			t.Errorf("%d machines are silent, want %d", n, machines+1)
		}
	})
}

// Findings that could not be committed are once they can, and are not more than one entry a second.
func TestFindingsAreCommittedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		failing := &failingAuthority{stage: s}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.r.Run(ctx, failing) }()
		time.Sleep(startWait + 20*time.Second)
		synctest.Wait()
		s.want("without a quorum", "")
		failing.mended.Store(true)
		time.Sleep(3 * noteEvery)
		synctest.Wait()
		s.want("with one again", "silent")
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Every finding has a remedy, which the log does not hold.
func TestEveryFindingHasARemedy(t *testing.T) {
	for _, code := range Codes() {
		if boots.Remedy(code) == "" {
			t.Errorf("finding %s has no remedy", code)
		}
	}
}

// What comes through a relay and is dropped there is told with the reason, at once.
func TestDroppedRelayIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.r.RelaysDropped = "firewall.match is ether"
		s.led(func() {
			time.Sleep(time.Minute)
			s.send(ask(t, machine1, dhcpv4.MessageTypeDiscover,
				append(firmware(7), dhcpv4.WithGatewayIP(net.IPv4(198, 51, 100, 1)))...))
			time.Sleep(judgeAfter + 2*noteEvery)
		})
		account, _ := AccountOf(s.log.View(), nodeA)
		if len(account.Findings) != 1 || account.Findings[0].Code != "denied" ||
			!strings.HasSuffix(account.Findings[0].Text, "through relay 198.51.100.1 and is kept out: firewall.match is ether") {
			t.Errorf("findings are %+v", account.Findings)
		}
	})
}

// What a relay passes on over IPv6 is dropped with each firewall.match; a relay in a switch has no
// address on the machine's link (RFC 6221).
func TestDroppedRelayOfSixIsTold(t *testing.T) {
	for _, match := range []string{"", "firewall.match is ether"} {
		for _, link := range []string{"2001:db8:9::1", "::"} {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.r.RelaysDropped = match
				m, err := dhcpv6.NewSolicit(hardware(t, machine1))
				if err != nil {
					t.Fatal(err)
				}
				r, err := dhcpv6.EncapsulateRelay(m, dhcpv6.MessageTypeRelayForward, net.ParseIP(link),
					net.ParseIP("fe80::5054:ff:fe00:1"))
				if err != nil {
					t.Fatal(err)
				}
				s.led(func() {
					s.send(datagram6(router, own, "[2001:db8::9]:547", "[ff05::1:3]:547", r.ToBytes()))
					time.Sleep(30 * time.Second)
				})
				account, _ := AccountOf(s.log.View(), nodeA)
				if len(account.Findings) != 1 || account.Findings[0].Code != "denied" ||
					!strings.HasSuffix(account.Findings[0].Text, "what a DHCP relay passes on over IPv6 is dropped") {
					t.Errorf("relay-of-six: link %s, %q: findings are %+v", link, match, account.Findings)
				}
			})
		}
	}
}

func TestFewMACsAreNamed(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e"}
	for n, want := range []string{"", "a", "a, b", "a, b, c", "a, b, c and 1 more", "a, b, c and 2 more"} {
		if got := few(all[:n]); got != want {
			t.Errorf("few: of %d it says %q, want %q", n, got, want)
		}
	}
}
