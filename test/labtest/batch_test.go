//go:build e2e

package labtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/nftables"
	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/test/testenv"
)

// Values of TestBatchGetsAddresses.
const (
	batchMachines = 200
	batchRounds   = 60                     // dnsmasq needs about 20 where the pool is hardly larger than the batch
	batchQuiet    = 300 * time.Millisecond // without an answer, after which a round is over
	batchSeed     = 1
)

// Kinds of DHCP messages over IPv4, and the options that a request repeats.
const (
	kindDiscover, kindOffer, kindRequest, kindAck, kindNak = 1, 2, 3, 5, 6
	optionAsked, optionKind, optionServer4                 = 50, 53, 54
	optionClient4                                          = 61
)

// TestBatchGetsAddresses lets a batch of machines ask the leader's host at the same
// moment, again and again until each has an address: all get one, each another, and
// none is refused one, because a ROM may give up then. The first pool is that of one of
// three peers on a /24. Then each asks as its firmware, as iPXE and as the ramdisk, with
// another client identifier, and gets the same.
func TestBatchGetsAddresses(t *testing.T) {
	t.Parallel()
	installGate(t)
	for _, c := range []struct {
		machines    int
		first, last byte // of the pool
	}{{20, 128, 169}, {30, 128, 169}, {batchMachines, 40, 250}} {
		t.Run(fmt.Sprint(c.machines), func(t *testing.T) { batchGetsAddresses(t, c.machines, c.first, c.last) })
	}
}

func batchGetsAddresses(t *testing.T, machines int, firstOfPool, lastOfPool byte) {
	l := NewHosts(t)
	l.net.bridge(PXE)
	server, client := l.net.Host(1), l.net.bootClient()
	server.plug(PXE, server.pxe())
	own := netip.MustParseAddr(server.pxe())
	at := func(last byte) netip.Addr {
		raw := own.As4()
		raw[3] = last
		return netip.AddrFrom4(raw)
	}
	startBatchServer(t, server, pxe.Server{
		Title: "a batch", Interface: string(PXE), Addresses: []netip.Prefix{netip.PrefixFrom(own, 24)}, Root: t.TempDir(),
		Pools: []pxe.Pool{{First: at(firstOfPool), Last: at(lastOfPool)}}, Lease: pxe.ShortLease, Batch: machines,
	})
	lease := server.nftables("iptables", PXE).Lease() // which lets in all machines
	defer func() {
		if err := lease.Close(); err != nil {
			t.Error(err)
		}
	}()
	testenv.Must(t, errors.Join(lease.Shut(t.Context()), lease.Arm(t.Context(), time.Minute),
		lease.Open(t.Context(), time.Minute)))
	wire, err := client.packets(PXE, unix.ETH_P_IP)
	testenv.Must(t, err)
	defer wire.Close()
	b := newBatch(t, wire, lease, machines)
	first, rounds := b.lease(nil)
	owners := make(map[netip.Addr]string)
	for mac, a := range first {
		if other, twice := owners[a]; twice {
			t.Errorf("%v is granted to %x and to %x", a, mac, other)
		}
		owners[a] = mac
	}
	t.Logf("%d machines had an address after %d rounds", len(first), rounds)
	for identifier := byte(1); identifier <= 3; identifier++ {
		again, _ := b.lease([]byte{255, identifier, 0, 0, 0}) // in more than one round where the wire lost an answer
		for mac, a := range again {
			if first[mac] != a {
				t.Errorf("machine %x had %v, and has %v with client identifier %d", mac, first[mac], a, identifier)
			}
		}
	}
}

// startBatchServer runs dnsmasq on a host, with more lines in another file, until the
// test ends.
func startBatchServer(t *testing.T, h *Host, s pxe.Server, more ...string) {
	t.Helper()
	text, err := s.Config()
	testenv.Must(t, err)
	dir := t.TempDir()
	testenv.PutFile(t, dir, "dnsmasq.conf", text)
	testenv.PutFile(t, dir, "others.conf", strings.Join(more, "\n"))
	h.dnsmasq(dir, "--conf-file="+dir+"/dnsmasq.conf", "--conf-file="+dir+"/others.conf")
}

// batch is machines that ask at the same moment.
type batch struct {
	t    *testing.T
	wire rawsocket.Socket
	door *nftables.Lease
	macs []net.HardwareAddr
}

// newBatch returns machines of several deliveries: four makers, and serial numbers at
// random, the same in each run.
func newBatch(t *testing.T, wire rawsocket.Socket, door *nftables.Lease, machines int) batch {
	b := batch{t: t, wire: wire, door: door}
	random := rand.New(rand.NewPCG(batchSeed, uint64(machines)))
	makers := [][]byte{{0x98, 0xa4, 0x04}, {0xe4, 0x43, 0x4b}, {0xb8, 0x59, 0x9f}, {0x0c, 0x42, 0xa1}}
	for range machines {
		serial := binary.BigEndian.AppendUint32(nil, random.Uint32())
		b.macs = append(b.macs, slices.Concat(makers[random.IntN(len(makers))], serial[1:]))
	}
	return b
}

// lease has every machine ask until it has an address, and returns those by MAC.
func (b batch) lease(identifier []byte) (got map[string]netip.Addr, rounds int) {
	b.t.Helper()
	got = make(map[string]netip.Addr)
	for ; len(got) < len(b.macs); rounds++ {
		if rounds == batchRounds {
			b.t.Fatalf("after %d rounds %d of %d machines have an address", rounds, len(got), len(b.macs))
		}
		testenv.Must(b.t, b.door.Hold(b.t.Context(), time.Minute))
		for _, mac := range b.macs {
			if _, has := got[string(mac)]; !has {
				b.send(mac, identifier, kindDiscover, nil)
			}
		}
		for mac, o := range b.answers(kindOffer) {
			b.send(net.HardwareAddr(mac), identifier, kindRequest, o)
		}
		for mac, o := range b.answers(kindAck) {
			got[mac] = o.address
		}
	}
	return got, rounds
}

// answer4 is what a server says to one machine.
type answer4 struct {
	address, next netip.Addr
	server        []byte
	options       map[byte][]byte
}

func (b batch) send(mac net.HardwareAddr, identifier []byte, kind byte, o *answer4) {
	b.t.Helper()
	frame := append(ethernet(mac, unix.ETH_P_IP),
		datagram(68, net.IPv4zero, net.IPv4bcast, bootp(mac, identifier, kind, o))...)
	if _, err := b.wire.Write(frame); err != nil {
		b.t.Fatal(err)
	}
}

// bootp is a message of a machine; it repeats what it was offered.
func bootp(mac net.HardwareAddr, identifier []byte, kind byte, o *answer4) []byte {
	bootp := make([]byte, 236, 300)
	bootp[0], bootp[1], bootp[2], bootp[10] = 1, 1, 6, 0x80
	copy(bootp[4:], mac[2:])
	copy(bootp[28:], mac)
	bootp = append(bootp, 0x63, 0x82, 0x53, 0x63, optionKind, 1, kind)
	if identifier != nil {
		bootp = append(append(bootp, optionClient4, byte(len(identifier)+len(mac))),
			append(bytes.Clone(identifier), mac...)...)
	}
	if o != nil {
		bootp = append(append(bootp, optionAsked, 4), o.address.AsSlice()...)
		bootp = append(append(bootp, optionServer4, 4), o.server...)
	}
	bootp = append(bootp, 0xff)
	return append(bootp, make([]byte, 300-len(bootp))...)
}

// answers reads answers of a kind until none comes any more.
func (b batch) answers(kind byte) map[string]*answer4 {
	b.t.Helper()
	out := make(map[string]*answer4)
	frame := make([]byte, rawsocket.MaxFrame)
	for {
		testenv.Must(b.t, b.wire.SetReadDeadline(time.Now().Add(batchQuiet)))
		n, err := b.wire.Read(frame)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return out
		}
		testenv.Must(b.t, err)
		if mac, _, refused := readAnswer4(frame[:n], kindNak); refused {
			b.t.Errorf("machine %x is refused the address that it was offered", mac)
		}
		if mac, o, ok := readAnswer4(frame[:n], kind); ok {
			out[mac] = o
		}
	}
}

func readAnswer4(frame []byte, kind byte) (mac string, o *answer4, ok bool) {
	if len(frame) < atOptions || frame[frameHead+9] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(frame[atUDP:]) != 67 {
		return "", nil, false
	}
	o, ok = readBOOTP(frame[atBOOTP:], kind)
	return string(frame[atChaddr : atChaddr+6]), o, ok
}

// readBOOTP reads a server's message; not ok if it is of another kind.
func readBOOTP(message []byte, kind byte) (o *answer4, ok bool) {
	const options = atOptions - atBOOTP
	if len(message) < options || message[0] != 2 {
		return nil, false
	}
	o = &answer4{options: make(map[byte][]byte)}
	o.address, _ = netip.AddrFromSlice(message[16:20])
	o.next, _ = netip.AddrFromSlice(message[20:24])
	for rest := message[options:]; len(rest) > 2 && rest[0] != 0xff; {
		end := 2 + int(rest[1])
		if end > len(rest) {
			break
		}
		o.options[rest[0]] = bytes.Clone(rest[2:end])
		rest = rest[end:]
	}
	o.server = o.options[optionServer4]
	return o, bytes.Equal(o.options[optionKind], []byte{kind})
}
