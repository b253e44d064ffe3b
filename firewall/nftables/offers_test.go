package nftables

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
)

// answer is what a DHCP server says to a machine about an address of a /24.
func answer(kind, address, client byte) datagram {
	d := datagram{protocol: unix.NFPROTO_IPV4, udp: make([]byte, 8+240+3)}
	d.udp[1] = dhcpServer
	copy(d.udp[8+16:], []byte{192, 0, 2, address})
	d.udp[8+33] = client
	copy(d.udp[8+236:], []byte{0x63, 0x82, 0x53, 0x63, 53, 1, kind})
	return d
}

// TestOneOfferForAnAddress tries what a server answers to machines that ask at the
// same moment: no address is offered to two of them, by any driver. What was offered
// once may be offered to that machine again, and nothing but offers is withheld.
func TestOneOfferForAnAddress(t *testing.T) {
	const offer, ack, nak = 2, 5, 6
	client := answer(offer, 130, 2)
	client.udp[1] = 68 // as a client sends it
	six := answer(offer, 130, 2)
	six.protocol = unix.NFPROTO_IPV6
	other := answer(offer, 130, 2)
	other.udp[8+240] = 54 // another option comes first
	for lists, f := range map[bool]*Filter{true: newFilter(t, firewall.MatchEther), false: bareFilter(t)} {
		k, sets := f.planned, contents{}
		for i, c := range []struct { // all within an instant
			datagram
			passes bool
		}{
			{answer(offer, 130, 1), true},
			{answer(offer, 130, 2), false},
			{answer(offer, 130, 1), true},
			{answer(offer, 131, 2), true},
			{answer(offer, 131, 1), false},
			{answer(offer, 130, 1), true},
			{answer(ack, 130, 2), true},
			{answer(nak, 130, 2), true},
			{client, true}, {six, true}, {other, true},
			{datagram{protocol: unix.NFPROTO_IPV4, udp: []byte{1: dhcpServer, 7: 0}}, true},
		} {
			if got := k.leaves(t, c.datagram, sets); got != c.passes {
				t.Errorf("lists %v: answer %d passes: %v, want %v", lists, i+1, got, c.passes)
			}
		}
	}
}

// leaves reports whether what a server says to a machine gets out.
func (k skeleton) leaves(t *testing.T, d datagram, sets contents) bool {
	t.Helper()
	verdict, decided := k.decideIn(t, chainOutput, d, sets)
	return !decided || verdict == expr.VerdictAccept
}

// TestAnOfferThatIsNotTakenUpKeepsNoOther lets dnsmasq offer one address to two machines
// or more. One that takes it up does so within 16 s; when none of those before has done
// so, another one gets it in one of the four questions that its firmware asks.
func TestAnOfferThatIsNotTakenUpKeepsNoOther(t *testing.T) {
	const first, second, third = 1, 2, 3
	type step struct {
		at     float64 // seconds
		client byte
		passes bool // the offer to it
	}
	for name, steps := range map[string][]step{
		"UEFI waits 16 s for others' offers": {{0, first, true}, {.5, second, false}, {4.5, second, false},
			{12.5, second, false}},
		"HTTP boot without a URL, and UEFI": {{0, first, true}, {.5, second, false}, {4, first, true}, {4.5, second, false},
			{12, first, true}, {12.5, second, false}, {28, first, true}, {28.5, second, true}, {29, third, false}},
		"another server's offer is chosen, and iPXE": {{0, first, true}, {.5, second, false}, {1.9, second, false},
			{4, second, false}, {8.2, second, true}, {8.3, third, false}},
		"another server's offer is chosen, and UEFI": {{0, first, true}, {19, second, false}, {23, second, true}},
		"two that take nothing up": {{0, first, true}, {.2, second, false}, {.5, third, false}, {4, first, true},
			{4.2, second, false}, {4.5, third, false}, {12, first, true}, {12.2, second, false}, {12.5, third, false},
			{28, first, true}, {28.2, second, true}, {28.5, third, true}},
		"it asks again after a pause": {{0, first, true}, {1, second, false}, {2, second, false}, {3, second, false},
			{60, first, true}, {64, second, false}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, sets, began := newFilter(t, firewall.MatchEther).planned, contents{}, time.Now()
				for _, s := range steps {
					time.Sleep(time.Until(began.Add(time.Duration(s.at * float64(time.Second)))))
					if got := k.leaves(t, answer(2, 130, s.client), sets); got != s.passes {
						t.Errorf("offer-holds: %s: at %v s the offer to machine %d passes: %v", name, s.at, s.client, got)
					}
				}
			})
		})
	}
}
