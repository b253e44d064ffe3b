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

	"github.com/insomniacslk/dhcp/dhcpv4"
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
	wire := client.socket(PXE, unix.ETH_P_IP)
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
				b.send(mac, identifier, dhcpv4.MessageTypeDiscover, nil)
			}
		}
		for mac, o := range b.answers(dhcpv4.MessageTypeOffer) {
			b.send(net.HardwareAddr(mac), identifier, dhcpv4.MessageTypeRequest, o)
		}
		for mac, o := range b.answers(dhcpv4.MessageTypeAck) {
			got[mac], _ = netip.AddrFromSlice(o.YourIPAddr.To4())
		}
	}
	return got, rounds
}

func (b batch) send(mac net.HardwareAddr, identifier []byte, kind dhcpv4.MessageType, o *dhcpv4.DHCPv4) {
	b.t.Helper()
	message := bootp(b.t, mac, identifier, kind, o).ToBytes()
	testenv.Must(b.t, b.wire.Send(append(ethernet(mac, unix.ETH_P_IP),
		datagram(68, net.IPv4zero, net.IPv4bcast, message)...)))
}

// bootp is a message of a machine; it repeats what it was offered.
func bootp(t testing.TB, mac net.HardwareAddr, identifier []byte, kind dhcpv4.MessageType,
	o *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	t.Helper()
	options := []dhcpv4.Modifier{dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(kind), dhcpv4.WithBroadcast(true)}
	if identifier != nil {
		whole := append(bytes.Clone(identifier), mac...)
		options = append(options, dhcpv4.WithOption(dhcpv4.OptClientIdentifier(whole)))
	}
	if o != nil {
		options = append(options, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(o.YourIPAddr)),
			dhcpv4.WithOption(dhcpv4.OptServerIdentifier(o.ServerIdentifier())))
	}
	m, err := dhcpv4.New(options...)
	testenv.Must(t, err)
	return m
}

// answers reads answers of a kind until none comes any more.
func (b batch) answers(kind dhcpv4.MessageType) map[string]*dhcpv4.DHCPv4 {
	b.t.Helper()
	out := make(map[string]*dhcpv4.DHCPv4)
	frame := make([]byte, rawsocket.MaxFrame)
	for {
		testenv.Must(b.t, b.wire.SetReadDeadline(time.Now().Add(batchQuiet)))
		n, err := b.wire.Read(frame)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return out
		}
		testenv.Must(b.t, err)
		m := answer4(frame[:n])
		switch {
		case m == nil:
		case m.MessageType() == dhcpv4.MessageTypeNak:
			b.t.Errorf("machine %v is refused the address that it was offered", m.ClientHWAddr)
		case m.MessageType() == kind:
			out[string(m.ClientHWAddr)] = m
		}
	}
}
