//go:build e2e

package labtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/test/labtest/program"
)

// Values of TestBatchGetsAddresses.
const (
	batchMachines = 200
	batchRounds   = 60                     // dnsmasq needs about 20 where the pool is hardly larger than the batch
	batchQuiet    = 300 * time.Millisecond // without an answer, after which a round is over
)

// Kinds of DHCP messages over IPv4, and the options that a request repeats.
const (
	kindDiscover, kindOffer, kindRequest, kindAck = 1, 2, 3, 5
	optionAsked, optionKind, optionServer4        = 50, 53, 54
	optionClient4                                 = 61
)

// TestBatchGetsAddresses lets a batch of machines ask one host at the same moment,
// again and again until each has an address: all get one, each another. Then each
// asks as its firmware, as iPXE and as the ramdisk, with another client identifier,
// and gets the same.
func TestBatchGetsAddresses(t *testing.T) {
	t.Parallel()
	installGate(t)
	l := NewHosts(t)
	l.net.bridge(PXE)
	server, client := l.net.Host(1), l.net.Host(clientHost)
	server.plug(PXE, server.pxe())
	client.plug(PXE, client.pxe())
	own := netip.MustParseAddr(server.pxe())
	at := func(last byte) netip.Addr {
		raw := own.As4()
		raw[3] = last
		return netip.AddrFrom4(raw)
	}
	startBatchServer(t, server, pxe.Server{
		Title: "a batch", Interface: string(PXE), Addresses: []netip.Prefix{netip.PrefixFrom(own, 24)}, Root: t.TempDir(),
		Pools: []pxe.Pool{{First: at(40), Last: at(250)}}, Lease: pxe.ShortLease, Batch: batchMachines,
	})
	wire, err := client.packets(PXE, unix.ETH_P_IP)
	if err != nil {
		t.Fatal(err)
	}
	defer wire.Close()
	b := batch{t: t, wire: wire}
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

// startBatchServer runs dnsmasq on a host until the test ends.
func startBatchServer(t *testing.T, h *Host, s pxe.Server) {
	t.Helper()
	text, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "dnsmasq.conf")
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	p, err := program.Start(h.inside("dnsmasq", "--keep-in-foreground", "--conf-file="+conf, "--user=root", "--group=root",
		"--dhcp-leasefile="+filepath.Join(dir, "leases"), "--pid-file="+filepath.Join(dir, "pid"), "--log-facility="+log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.End(syscall.SIGTERM, 5*time.Second); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(log); t.Failed() {
			t.Logf("dnsmasq: %v\n%s", err, program.Tail(string(text), 40))
		}
	})
}

// batch is machines that ask at the same moment.
type batch struct {
	t    *testing.T
	wire rawsocket.Socket
}

func batchMAC(n int) net.HardwareAddr {
	return net.HardwareAddr{0x52, 0x54, 0, byte(n * 7), byte(n >> 3), byte(n * 31)}
}

// lease has every machine ask until it has an address, and returns those by MAC.
func (b batch) lease(identifier []byte) (got map[string]netip.Addr, rounds int) {
	b.t.Helper()
	got = make(map[string]netip.Addr)
	for ; len(got) < batchMachines; rounds++ {
		if rounds == batchRounds {
			b.t.Fatalf("after %d rounds %d of %d machines have an address", rounds, len(got), batchMachines)
		}
		var asking []net.HardwareAddr
		for n := range batchMachines {
			if _, has := got[string(batchMAC(n))]; !has {
				asking = append(asking, batchMAC(n))
			}
		}
		for _, mac := range asking {
			b.send(mac, identifier, kindDiscover, nil)
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
	address netip.Addr
	server  []byte
}

func (b batch) send(mac net.HardwareAddr, identifier []byte, kind byte, o *answer4) {
	b.t.Helper()
	bootp := make([]byte, 236, 300)
	bootp[0], bootp[1], bootp[2], bootp[10] = 1, 1, 6, 0x80
	copy(bootp[4:], mac[2:])
	copy(bootp[28:], mac)
	bootp = append(bootp, 0x63, 0x82, 0x53, 0x63, optionKind, 1, kind)
	if identifier != nil {
		bootp = append(append(bootp, optionClient4, byte(len(identifier)+len(mac))), append(bytes.Clone(identifier), mac...)...)
	}
	if o != nil {
		bootp = append(append(bootp, optionAsked, 4), o.address.AsSlice()...)
		bootp = append(append(bootp, optionServer4, 4), o.server...)
	}
	bootp = append(bootp, 0xff)
	frame := append(ethernet(mac, unix.ETH_P_IP), datagram(68, net.IPv4zero, net.IPv4bcast, append(bootp, make([]byte, 300-len(bootp))...))...)
	if _, err := b.wire.Write(frame); err != nil {
		b.t.Fatal(err)
	}
}

// answers reads answers of a kind until none comes any more.
func (b batch) answers(kind byte) map[string]*answer4 {
	b.t.Helper()
	out := make(map[string]*answer4)
	frame := make([]byte, rawsocket.MaxFrame)
	for {
		if err := b.wire.SetReadDeadline(time.Now().Add(batchQuiet)); err != nil {
			b.t.Fatal(err)
		}
		n, err := b.wire.Read(frame)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return out
		}
		if err != nil {
			b.t.Fatal(err)
		}
		if mac, o, ok := readAnswer4(frame[:n], kind); ok {
			out[mac] = o
		}
	}
}

func readAnswer4(frame []byte, kind byte) (mac string, o *answer4, ok bool) {
	if len(frame) < atOptions || frame[frameHead+9] != unix.IPPROTO_UDP || frame[atBOOTP] != 2 || binary.BigEndian.Uint16(frame[atUDP:]) != 67 {
		return "", nil, false
	}
	o = &answer4{}
	o.address, _ = netip.AddrFromSlice(frame[atBOOTP+16 : atBOOTP+20])
	for options := frame[atOptions:]; len(options) > 2 && options[0] != 0xff; {
		end := 2 + int(options[1])
		if end > len(options) {
			break
		}
		switch options[0] {
		case optionKind:
			ok = options[2] == kind
		case optionServer4:
			o.server = bytes.Clone(options[2:end])
		}
		options = options[end:]
	}
	return string(frame[atChaddr : atChaddr+6]), o, ok
}
