//go:build e2e

package labtest

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// What TestFiguresOfRecorder puts on the wire.
const (
	crowdMachines = 200
	crowdTime     = 30 * time.Second // for all their boots, which begin at once
	crowdRounds   = 1200             // blocks of a ramdisk of 108 MB that the kernel hands on
	floodTime     = 10 * time.Second
	floodRate     = 20_000 // DISCOVERs a second, each of another MAC
	floodTick     = 5 * time.Millisecond
)

// TestFiguresOfRecorder takes the leader's processor time, memory and log entries while a batch
// boots and while strangers flood, with the recorder and without it.
func TestFiguresOfRecorder(t *testing.T) {
	f, trials := measured(t)
	for range min(trials, 3) {
		for _, with := range []bool{false, true} {
			t.Run(fmt.Sprintf("recorder %v", with), func(t *testing.T) { recorderFigures(t, f, with) })
		}
	}
}

func recorderFigures(t *testing.T, f figures, with bool) {
	name := map[bool]string{false: ".off", true: ".on"}[with]
	g := gateKind{machines: crowdMachines + 2, env: []string{fmt.Sprintf("TRIVET_FIREWALL_RECORDER=%v", with)}}.
		build(t, "nftables")
	for _, server := range g.dhcp { // what they take is not the recorder's
		testenv.Must(t, server.Signal(syscall.SIGSTOP))
		t.Cleanup(func() {
			if err := server.Signal(syscall.SIGCONT); err != nil {
				t.Error(err)
			}
		})
	}
	g.Introspect(g.machines[2:])
	g.WaitState(endLimit, g.machines[2:], "waiting")
	leader := g.WaitLeader()
	wire := g.client.socket(PXE, unix.ETH_P_IP)

	take := func(what string, total time.Duration, do func()) {
		cpu, began, entries, memory := leader.spent(), time.Now(), leader.entries(), leader.anonymous()
		do()
		took := time.Since(began)
		f[what+name] = append(f[what+name], (leader.spent()-cpu).Seconds()/took.Seconds())
		f[what+".entries"+name] = append(f[what+".entries"+name], float64(leader.entries()-entries))
		f[what+".memory"+name] = append(f[what+".memory"+name], leader.anonymous()-memory)
		f[what+".late"+name] = append(f[what+".late"+name], (took - total).Seconds())
	}
	quiet := func() { testwait.Elapse(t, floodTime, "nothing boots") }
	take("quiet", floodTime, quiet)
	boots := newCrowd(t, g)
	take("boots", crowdTime, func() { boots.play(wire) })
	take("flood", floodTime, func() { flood(t, wire) })
	if now := g.WaitLeader(); now != leader {
		t.Fatalf("leadership went from %s to %s meanwhile", leader.Name, now.Name)
	}
	boot, err := (&recorderLab{romLab: &romLab{SiteLab: g.SiteLab}, t: t}).boot(leader, g.machines[2])
	if err != nil || with != (len(boot.Steps) > 5) {
		t.Errorf("of a machine is told: %+v, %v", boot, err)
	}
	t.Logf("%v", f)
}

// crowd is what machines and a server send while they boot, as the kernel hands it on.
type crowd struct {
	t     testing.TB
	steps [][]byte // of all machines, in turns
}

func newCrowd(t testing.TB, g *gateLab) (c crowd) {
	t.Helper()
	c.t = t
	server := hardware(t, "02:00:00:00:00:99")
	all := make([][][]byte, crowdMachines)
	for i := range all {
		mac := hardware(t, g.machines[2+i].MAC)
		at, from := netip.AddrFrom4([4]byte{10, 212, 1, byte(i)}), netip.MustParseAddr("10.212.0.99")
		for _, ipxe := range []bool{false, true} {
			all[i] = append(all[i], exchange(t, mac, server, at, from, ipxe)...)
		}
		all[i] = append(all[i], transfer(mac, server, at, from, "ironic-agent.initramfs")...)
	}
	for n := range all[0] {
		for i := range all {
			c.steps = append(c.steps, all[i][n])
		}
	}
	return c
}

// exchange is how a machine gets an address.
func exchange(t testing.TB, mac, server net.HardwareAddr, at, from netip.Addr, ipxe bool) (all [][]byte) {
	t.Helper()
	b := (&booter{t: t, mac: mac}).as(iana.EFI_X86_64, ipxe)
	for _, kind := range []dhcpv4.MessageType{dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeOffer,
		dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeAck} {
		m, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(kind),
			dhcpv4.WithOption(dhcpv4.OptServerIdentifier(from.AsSlice()))}, b.options...)...)
		testenv.Must(t, err)
		if kind == dhcpv4.MessageTypeDiscover || kind == dhcpv4.MessageTypeRequest {
			all = append(all, append(ethernet(mac, unix.ETH_P_IP), datagram(68, net.IPv4zero, net.IPv4bcast, m.ToBytes())...))
			continue
		}
		m.OpCode, m.YourIPAddr, m.BootFileName = dhcpv4.OpcodeBootReply, at.AsSlice(), "snponly.efi"
		answer := append(ethernet(server, unix.ETH_P_IP), datagram(67, from.AsSlice(), net.IPv4bcast, m.ToBytes())...)
		answer[atUDP+3] = 68
		all = append(all, answer)
	}
	return all
}

// transfer is a file by TFTP.
func transfer(mac, server net.HardwareAddr, at, from netip.Addr, file string) (all [][]byte) {
	packet := func(src, dst net.HardwareAddr, source, end netip.Addr, sport, dport uint16, body []byte) []byte {
		b := append(ethernet(src, unix.ETH_P_IP), datagram(0, source.AsSlice(), end.AsSlice(), body)...)
		copy(b, dst)
		binary.BigEndian.PutUint16(b[atUDP:], sport)
		binary.BigEndian.PutUint16(b[atUDP+2:], dport)
		return b
	}
	all = append(all, packet(mac, server, at, from, 2070, 69, fmt.Appendf(nil, "\x00\x01%s\x00octet\x00", file)),
		packet(server, mac, from, at, 4000, 2070, []byte("\x00\x06blksize\x001408\x00")))
	for n := range crowdRounds {
		block := binary.BigEndian.AppendUint16([]byte{0, 3}, uint16(64*n+1))
		all = append(all, packet(server, mac, from, at, 4000, 2070, append(block, make([]byte, fetchBlock)...)))
	}
	return append(all, packet(server, mac, from, at, 4000, 2070, []byte("\x00\x03\x00\x02end")))
}

// play sends all, evenly.
func (c crowd) play(wire rawsocket.Socket) {
	sent, began := 0, time.Now()
	testwait.Every(c.t, floodTick, crowdTime, func() {
		due := min(len(c.steps), int(float64(len(c.steps))*time.Since(began).Seconds()/crowdTime.Seconds()))
		for ; sent < due; sent++ {
			testenv.Must(c.t, wire.Send(c.steps[sent]))
		}
	})
}

// flood sends DISCOVERs, each of another MAC.
func flood(t testing.TB, wire rawsocket.Socket) {
	t.Helper()
	frame := discover{mac: hardware(t, "52:54:01:00:00:00")}.frame(0)
	sent, began := 0, time.Now()
	testwait.Every(t, floodTick, floodTime, func() {
		for due := int(floodRate * time.Since(began).Seconds()); sent < due; sent++ {
			for _, at := range []int{8, atChaddr + 2} {
				copy(frame[at:], []byte{1, byte(sent >> 16), byte(sent >> 8), byte(sent)})
			}
			testenv.Must(t, wire.Send(frame))
		}
	})
	testenv.Figure(t, "recorder flood", float64(sent)/floodTime.Seconds(), "1/s", testenv.AtLeast(floodRate*9/10))
}

// spent is the processor time of the peer's process, of which the kernel counts hundredths of a
// second.
func (p *Peer) spent() time.Duration {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	testenv.Must(p.t, err)
	var user, system int64
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		p.t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// anonymous is the memory of the peer's process, in MB.
func (p *Peer) anonymous() (mb float64) {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	testenv.Must(p.t, err)
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	if _, err := fmt.Sscan(rest, &mb); err != nil {
		p.t.Fatal(err)
	}
	return mb / 1024
}

// entries is the index of the newest entry of the log that the peer has applied.
func (p *Peer) entries() uint64 {
	p.t.Helper()
	var c admin.Check
	testenv.Must(p.t, p.Call("GET", "/v1/debug/check", nil, &c))
	return c.Index
}
