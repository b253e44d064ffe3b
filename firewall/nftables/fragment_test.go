//go:build e2e

package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
)

// Lengths in a frame of IPv6, in bytes.
const (
	ethernetHeader = 14
	ipv6Header     = 40
	udpHeader      = 8
)

// cut makes fragments of a frame of IPv6: each of the lengths is one, and the
// rest the last. Before what is cut it puts extension headers, of which next is
// the first; none if it is UDP. The fragments of one frame share an ID.
func cut(id uint32, frame []byte, next byte, extensions []byte, lengths ...int) (fragments [][]byte) {
	body := slicesOf(extensions, frame[ethernetHeader+ipv6Header:])
	for offset := 0; offset < len(body); {
		length, more := len(body)-offset, uint16(0)
		if len(lengths) > 0 {
			length, lengths, more = lengths[0], lengths[1:], 1
		}
		header := binary.BigEndian.AppendUint16([]byte{next, 0}, uint16(offset)|more)
		header = binary.BigEndian.AppendUint32(header, id)
		fragment := slicesOf(frame[:ethernetHeader+ipv6Header], header, body[offset:offset+length])
		binary.BigEndian.PutUint16(fragment[ethernetHeader+4:], uint16(8+length))
		fragment[ethernetHeader+6] = unix.IPPROTO_FRAGMENT
		fragments = append(fragments, fragment)
		offset += length
	}
	return fragments
}

// reachesAs sends p as make changes its frame and reports whether a server on
// the host receives it.
func (f *far) reachesAs(p packet, change func(id uint32, frame []byte) [][]byte) bool {
	f.t.Helper()
	server, witness := f.listen(p.six, p.port), f.listen(p.six, 69)
	defer func() { f.must(errors.Join(server.Close(), witness.Close())) }()
	f.sent++
	marker := fmt.Appendf(nil, "packet %d....", f.sent)
	for _, frame := range change(uint32(f.sent), p.frame(f.to, marker)) {
		f.must(f.socket.Send(frame))
	}
	later := p
	later.port = 69
	f.must(f.socket.Send(later.frame(f.to, marker)))
	if !received(f.t, witness, marker, labLimit) {
		f.t.Fatal("what nobody filters did not arrive")
	}
	return received(f.t, server, marker, 20*time.Millisecond)
}

// warm waits until the host takes what comes over IPv6: a new interface does not
// at once.
func (f *far) warm() {
	f.t.Helper()
	p := packet{from: unknown, port: 69, six: true}
	witness := f.listen(p.six, p.port)
	defer func() { f.must(witness.Close()) }()
	eventually(f.t, "the host takes IPv6", func() bool {
		f.must(f.socket.Send(p.frame(f.to, []byte("warm"))))
		return received(f.t, witness, []byte("warm"), 10*time.Millisecond)
	})
}

// TestFragmentsHideNothing cuts requests where a rule looks at them. Fragments to
// other ports, and requests that are whole, come through.
func TestFragmentsHideNothing(t *testing.T) {
	// A destination option of padding, and one so long that it ends in the
	// second fragment.
	padding, long := []byte{unix.IPPROTO_UDP, 0, 1, 4, 0, 0, 0, 0},
		slicesOf([]byte{unix.IPPROTO_UDP, 1, 1, 12}, make([]byte, 12))
	cuts := map[string]func(uint32, []byte) [][]byte{
		"behind the UDP header": func(id uint32, frame []byte) [][]byte {
			return cut(id, frame, unix.IPPROTO_UDP, nil, udpHeader)
		},
		"behind the type": func(id uint32, frame []byte) [][]byte { return cut(id, frame, unix.IPPROTO_UDP, nil, 16) },
		"one fragment":    func(id uint32, frame []byte) [][]byte { return cut(id, frame, unix.IPPROTO_UDP, nil) },
		"behind an option": func(id uint32, frame []byte) [][]byte {
			return cut(id, frame, unix.IPPROTO_DSTOPTS, padding, 8+udpHeader)
		},
		"before the UDP header": func(id uint32, frame []byte) [][]byte {
			return cut(id, frame, unix.IPPROTO_DSTOPTS, padding, 8)
		},
		"in the middle of an option": func(id uint32, frame []byte) [][]byte {
			return cut(id, frame, unix.IPPROTO_DSTOPTS, long, 8)
		},
		"the second one comes before": func(id uint32, frame []byte) [][]byte {
			f := cut(id, frame, unix.IPPROTO_UDP, nil, udpHeader)
			return [][]byte{f[1], f[0]}
		},
	}
	for name, options := range map[string][]Option{"with lists": nil, "the lease only": {LeaseOnly()}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			far := h.cable()
			far.warm()
			relayed := packet{from: router, client: denied, port: 547, six: true, relayed: true}
			if !far.reachesAs(relayed, cuts["behind the UDP header"]) {
				t.Fatal("the host does not put fragments together")
			}
			f := h.filter(firewall.MatchEther, options...)
			l := h.lease(f)
			if options == nil {
				h.must(h.chains(f).Replace(t.Context(),
					firewall.Ruleset{Allow: []string{allowed}, Deny: []string{denied}, Pass: true}))
			}
			h.open(l, time.Minute)
			for how, change := range cuts {
				for _, p := range []packet{relayed, {from: denied, port: 547, six: true}, {from: unknown, port: 4011, six: true}} {
					if far.reachesAs(p, change) {
						t.Errorf("fragments: %s: %+v gets through", how, p)
					}
				}
			}
			if p := (packet{from: unknown, port: 5353, six: true}); !far.reachesAs(p, cuts["behind the UDP header"]) {
				t.Errorf("fragments to a port that is not gated are dropped: %+v", p)
			}
			far.expect(packet{from: allowed, port: 547, six: true}, true)
		})
	}
}
