package recorder

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// nextHost is the host of peer b, which leads after a on hostAt.
const nextHost = "192.0.2.3"

// chooses is the machine's choice of an offer of that server.
func (s *stage) chooses(server string) {
	s.send(ask(s.t, machine1, dhcpv4.MessageTypeRequest,
		append(firmware(7), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(server))))...))
}

// killed has the recorder lead while do goes on, and loses all that is not committed then.
func (s *stage) killed(do func()) {
	ctx, kill := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- s.r.Run(ctx, s) }()
	do()
	synctest.Wait()
	kill()
	if err := <-done; err != nil {
		s.t.Error(err)
	}
	s.r = New(s, s, "b", s.r.logger)
}

// boots has the machine boot from the next leader's host.
func (s *stage) boots() {
	time.Sleep(4 * time.Second) // in a bubble
	for i, file := range []string{"snponly.efi", "trivet.ipxe", "ironic-agent.kernel"} {
		s.ask()
		s.send(give(s.t, own, nextHost, machine1, dhcpv4.MessageTypeOffer, file))
		s.chooses(nextHost)
		s.send(give(s.t, own, nextHost, machine1, dhcpv4.MessageTypeAck, file))
		s.fetch(2070+i, file, 100, true)
	}
	time.Sleep(judgeAfter + 3*noteEvery) // in a bubble
}

// The host of the leader before is no foreign DHCP server, neither where its offer was lost with the
// leader nor where it comes when the next one leads.
func TestHostOfTheLastLeaderIsNotForeign(t *testing.T) {
	late := func(s *stage) {
		s.ask() // again, before the offer came
		s.send(give(s.t, foreign, hostAt, machine1, dhcpv4.MessageTypeOffer, "snponly.efi"))
		s.chooses(hostAt)
	}
	offered := func(s *stage) {
		s.ask()
		s.send(give(s.t, own, hostAt, machine1, dhcpv4.MessageTypeOffer, "snponly.efi"))
	}
	for name, c := range map[string]struct{ before, first, then func(*stage) }{
		"its offer is lost": {nil, offered, func(s *stage) { s.chooses(hostAt) }},
		"its offer comes late": {nil, (*stage).ask, func(s *stage) {
			s.send(give(s.t, foreign, hostAt, machine1, dhcpv4.MessageTypeOffer, "snponly.efi"))
		}},
		"a member names its address": {func(s *stage) {
			if _, err := s.log.DoAsLeader(membership.PutMember{Member: membership.Member{ID: "a", Name: "h1",
				Address: hostAt + ":7350", Version: fsm.Version}}); err != nil {
				s.t.Fatal(err)
			}
		}, (*stage).ask, late},
		"an earlier boot names its address": {func(s *stage) {
			s.led(func() { s.lease("snponly.efi", firmware(7)...) })
			s.remove()
			s.inspect()
		}, (*stage).ask, late},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				if c.before != nil {
					c.before(s)
				}
				s.killed(func() { c.first(s) })
				s.led(func() {
					time.Sleep(noteEvery)
					c.then(s)
					time.Sleep(judgeAfter + 3*noteEvery)
					if got := s.found(); got != "" {
						t.Errorf("host-of-a-peer: at first the findings are %q, of: %s", got, told(s.track()))
					}
					s.boots()
				})
				if got := s.found(); got != "" {
					t.Errorf("host-of-a-peer: the findings are %q, of: %s", got, told(s.track()))
				}
			})
		})
	}
}

// A server that is foreign is so for the next leader, too, also the one that only the next leader
// hears of.
func TestForeignServerStaysFoundByTheNextLeader(t *testing.T) {
	const rogue = "192.0.2.9"
	for name, two := range map[string]bool{"found before": false, "asked for at both": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.killed(func() {
					s.ask()
					if !two {
						s.chooses(rogue)
					}
					time.Sleep(judgeAfter + 3*noteEvery)
				})
				s.led(func() {
					if two {
						s.ask()
						s.chooses(rogue)
					}
					time.Sleep(judgeAgain + 3*noteEvery)
				})
				if got := s.found(); got != "foreign-server no-offer" {
					t.Errorf("foreign-stays: the findings are %q, of: %s", got, told(s.track()))
				}
			})
		})
	}
}

// A leader that hands on commits what it has heard and not committed.
func TestYieldCommitsWhatWasHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.r.Yield(t.Context()) // it does not lead
		s.killed(func() {
			s.lease("snponly.efi", firmware(7)...)
			synctest.Wait()
			s.r.Yield(t.Context())
		})
		if got := told(s.track()); got != "asked, offered snponly.efi, chose, leased snponly.efi" {
			t.Errorf("heard-is-handed-on: told is %q", got)
		}
	})
}
