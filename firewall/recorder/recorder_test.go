package recorder

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/test/memlog"
	"github.com/trivet-ha/trivet/test/testwait"
)

const (
	nodeA    = "00000000-0000-4000-8000-00000000000a"
	machine1 = "52:54:00:00:00:01"
	hostAt   = "192.0.2.2"
	given    = "192.0.2.60"
)

// stage is a network with this host, whose MAC is own, and a leadership.
type stage struct {
	firewall.Proof
	t      testing.TB
	log    *memlog.Log
	frames chan []byte
	r      *Recorder
}

var own = net.HardwareAddr{0x52, 0x54, 0, 0xff, 0, 1}

func newStage(t testing.TB) *stage {
	s := &stage{t: t, log: memlog.New(t), frames: make(chan []byte)}
	s.r = New(s, s, "a", slog.New(slog.DiscardHandler))
	s.inspect()
	return s
}

// inspect has Ironic inspect the machine's node.
func (s *stage) inspect() {
	s.t.Helper()
	if _, err := s.log.DoAsLeader(introspection.PutInspected{
		Nodes: []introspection.Inspected{{Node: nodeA, MACs: []string{machine1}}}}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) Changed() (fsm.View, <-chan struct{}) { return s.log.View(), nil }

func (s *stage) Token() fencing.Token { return s.log.View().Leadership().Token }

func (s *stage) Propose(_ context.Context, c fsm.Command) (fsm.Result, error) {
	return s.log.DoAsLeader(c)
}

func (s *stage) Listen(ctx context.Context, heard func([]byte, net.HardwareAddr)) error {
	for {
		select {
		case b := <-s.frames:
			heard(b, own)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send puts a frame on the wire.
func (s *stage) send(b []byte) {
	s.t.Helper()
	testwait.Send(s.t, s.frames, b, "the recorder reads a frame")
}

// led has the recorder lead while do goes on.
func (s *stage) led(do func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- s.r.Run(ctx, s) }()
	synctest.Wait() // it listens
	do()
	synctest.Wait()
	time.Sleep(noteEvery + time.Millisecond) // in a bubble; a commit that is due then has ended
	cancel()
	if err := <-done; err != nil {
		s.t.Error(err)
	}
}

func (s *stage) track() boots.Track {
	track, _ := s.log.View().BootTrack(nodeA)
	return track
}

// told is a track in words.
func told(track boots.Track) string {
	var all []string
	for _, step := range track.Steps {
		text := step.Kind.String()
		if step.File != "" {
			text += " " + step.File
		}
		if step.Foreign {
			text += " (foreign)"
		}
		if step.Count > 1 {
			text += fmt.Sprintf(" x%d", step.Count)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// datagram is a frame of UDP over IPv4.
func datagram(from, to net.HardwareAddr, src, dst string, body []byte) []byte {
	return packet(unix.IPPROTO_UDP, from, to, netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst),
		binary.BigEndian.AppendUint32(nil, uint32(rawsocket.UDPHeader+len(body))<<16), body)
}

// segment is one of TCP.
func segment(from, to net.HardwareAddr, src, dst, body string) []byte {
	rest := make([]byte, rawsocket.TCPHeader-4)
	rest[8] = 5 << 4
	return packet(unix.IPPROTO_TCP, from, to, netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst), rest,
		[]byte(body))
}

func packet(proto byte, from, to net.HardwareAddr, src, dst netip.AddrPort, rest, body []byte) []byte {
	b := binary.BigEndian.AppendUint16(slices.Concat(to, from), unix.ETH_P_IP)
	ip := make([]byte, rawsocket.IP4Header)
	ip[0], ip[9] = 0x45, proto
	binary.BigEndian.PutUint16(ip[2:], uint16(rawsocket.IP4Header+4+len(rest)+len(body)))
	copy(ip[12:], src.Addr().AsSlice())
	copy(ip[16:], dst.Addr().AsSlice())
	b = append(b, ip...)
	b = binary.BigEndian.AppendUint16(b, src.Port())
	b = binary.BigEndian.AppendUint16(b, dst.Port())
	return slices.Concat(b, rest, body)
}

var everybody = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

func hardware(t testing.TB, mac string) net.HardwareAddr {
	t.Helper()
	at, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// ask is a message of a client.
func ask(t testing.TB, mac string, kind dhcpv4.MessageType, options ...dhcpv4.Modifier) []byte {
	t.Helper()
	m, err := dhcpv4.New(slices.Concat([]dhcpv4.Modifier{dhcpv4.WithHwAddr(hardware(t, mac)),
		dhcpv4.WithMessageType(kind)}, options)...)
	if err != nil {
		t.Fatal(err)
	}
	return datagram(hardware(t, mac), everybody, "0.0.0.0:68", "255.255.255.255:67", m.ToBytes())
}

// give is a message of a server to the client with that MAC.
func give(t testing.TB, from net.HardwareAddr, server, mac string, kind dhcpv4.MessageType, file string) []byte {
	t.Helper()
	m, err := dhcpv4.New(dhcpv4.WithHwAddr(hardware(t, mac)), dhcpv4.WithMessageType(kind),
		dhcpv4.WithYourIP(net.ParseIP(given)), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(server))))
	if err != nil {
		t.Fatal(err)
	}
	m.OpCode, m.BootFileName = dhcpv4.OpcodeBootReply, file
	return datagram(from, everybody, server+":67", "255.255.255.255:68", m.ToBytes())
}

func firmware(arch iana.Arch) []dhcpv4.Modifier {
	return []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00007")),
		dhcpv4.WithOption(dhcpv4.OptClientArch(arch))}
}

func ipxe() []dhcpv4.Modifier {
	return append(firmware(iana.EFI_X86_64), dhcpv4.WithGeneric(dhcpv4.OptionUserClassInformation, []byte("iPXE")))
}

// lease is a whole exchange with this host's server, which names a file.
func (s *stage) lease(file string, options ...dhcpv4.Modifier) {
	for _, b := range [][]byte{
		ask(s.t, machine1, dhcpv4.MessageTypeDiscover, options...),
		give(s.t, own, hostAt, machine1, dhcpv4.MessageTypeOffer, file),
		ask(s.t, machine1, dhcpv4.MessageTypeRequest,
			append(options, dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(hostAt))))...),
		give(s.t, own, hostAt, machine1, dhcpv4.MessageTypeAck, file),
	} {
		s.send(b)
	}
}

// fetch has the machine fetch a file of so many blocks by TFTP, of which those arrive that the
// kernel hands on.
func (s *stage) fetch(port int, file string, blocks int, end bool) {
	s.fetchOf(port, file, blocks, blocks, end)
}

// refuse has the server say that it has no such file.
func (s *stage) refuse(port int, file string) {
	from := fmt.Sprintf("%s:%d", given, port)
	s.send(datagram(hardware(s.t, machine1), own, from, hostAt+":69", []byte("\x00\x01"+file+"\x00octet\x00")))
	s.send(datagram(own, hardware(s.t, machine1), hostAt+":4000", from, []byte("\x00\x05\x00\x01file not found\x00")))
}

// fetchOf breaks off after so many blocks of all.
func (s *stage) fetchOf(port int, file string, all, blocks int, end bool) {
	machine, from, to := hardware(s.t, machine1), fmt.Sprintf("%s:%d", given, port), hostAt+":4000"
	s.send(datagram(machine, own, from, hostAt+":69",
		[]byte("\x00\x01"+file+"\x00octet\x00tsize\x000\x00blksize\x001408\x00")))
	s.send(datagram(own, machine, to, from,
		fmt.Appendf(nil, "\x00\x06tsize\x00%d\x00blksize\x001408\x00", all*1408+7)))
	for i := 1; i <= blocks; i += sampled {
		s.send(datagram(own, machine, to, from,
			append([]byte{0, tftpData, byte(i >> 8), byte(i)}, make([]byte, 1408)...)))
	}
	if end {
		last := blocks + 1
		s.send(datagram(own, machine, to, from,
			append([]byte{0, tftpData, byte(last >> 8), byte(last)}, "the end"...)))
	}
}

// A whole boot is told in order, also where a file has more blocks than 16 bits count, and what is
// left is the call.
func TestBootIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.led(func() {
			s.lease("snponly.efi", firmware(iana.EFI_X86_64)...)
			s.fetch(2070, "snponly.efi", 100, true)
			s.lease("trivet.ipxe", ipxe()...)
			s.fetch(2071, "trivet.ipxe", 0, true)
			s.fetch(2072, "ironic-agent.kernel", 5000, true)
			s.fetch(2073, "ironic-agent.initramfs", 150_000, true)
		})
		const want = "asked, offered snponly.efi, chose, leased snponly.efi, fetched snponly.efi, " +
			"asked, offered trivet.ipxe, chose, leased trivet.ipxe, fetched trivet.ipxe, " +
			"fetched ironic-agent.kernel, fetched ironic-agent.initramfs"
		if got := told(s.track()); got != want {
			t.Errorf("told is\n%s, want\n%s", got, want)
		}
		for _, step := range s.track().Steps {
			if step.File == "ironic-agent.initramfs" && step.Bytes != 150_000*1408+7 {
				t.Errorf("%d bytes of the ramdisk were fetched", step.Bytes)
			}
		}
		if found := codes(s, ""); found != "no-callback" {
			t.Errorf("findings are %q", found)
		}
	})
}

// codes are the findings for the machine; denied says why it is kept out.
func codes(s *stage, denied string) string {
	strangers, _ := s.r.Strangers()
	var all []string
	found, _ := Machine{MACs: []string{machine1}, Since: time.Now().Add(-time.Hour), Now: time.Now().Add(time.Hour),
		Track: s.track(), Denied: func(string, string) string { return denied }, Strangers: strangers}.judgeBoot()
	for _, f := range found {
		all = append(all, f.Code)
	}
	return strings.Join(all, " ")
}

// finds has a machine boot, and wants these findings once nothing more is to be expected.
func finds(t *testing.T, name string, boot func(*stage), denied, want string) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.led(func() { boot(s) })
			if got := codes(s, denied); got != want {
				t.Errorf("findings are %q, want %q, of: %s", got, want, told(s.track()))
			}
		})
	})
}

var foreign = net.HardwareAddr{0x52, 0x54, 0, 0xee, 0, 1}

// Each way in which a boot stops is found, what stops it first before the rest, also two at once.
func TestFindings(t *testing.T) {
	asks := func(s *stage) { s.send(ask(s.t, machine1, dhcpv4.MessageTypeDiscover, firmware(7)...)) }
	for name, c := range map[string]struct {
		boot   func(*stage)
		denied string
		want   string
	}{
		"nothing": {func(*stage) {}, "", "silent"},
		"another MAC": {func(s *stage) {
			s.send(ask(s.t, "52:54:00:00:00:99", dhcpv4.MessageTypeDiscover, firmware(7)...))
		}, "", "silent unknown-mac"},
		"denied":    {asks, "its relay's requests are dropped", "denied"},
		"no server": {asks, "", "no-offer"},
		"denied, behind a relay, and another server answers": {func(s *stage) {
			s.send(ask(s.t, machine1, dhcpv4.MessageTypeDiscover,
				append(firmware(7), dhcpv4.WithGatewayIP(net.IPv4(198, 51, 100, 1)))...))
			s.send(give(s.t, foreign, "198.51.100.9", machine1, dhcpv4.MessageTypeOffer, ""))
		}, "its relay's requests are dropped", "denied foreign-server"},
		"another server was first": {func(s *stage) {
			asks(s)
			s.send(give(s.t, foreign, "192.0.2.9", machine1, dhcpv4.MessageTypeOffer, ""))
			s.send(give(s.t, own, hostAt, machine1, dhcpv4.MessageTypeOffer, "snponly.efi"))
			s.send(ask(s.t, machine1, dhcpv4.MessageTypeRequest,
				dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(192, 0, 2, 9)))))
		}, "", "foreign-server"},
		"another server's offer is not heard, the choice is": {func(s *stage) {
			asks(s)
			s.send(give(s.t, own, hostAt, machine1, dhcpv4.MessageTypeOffer, "snponly.efi"))
			s.send(ask(s.t, machine1, dhcpv4.MessageTypeRequest,
				dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IPv4(192, 0, 2, 9)))))
		}, "", "foreign-server"},
		"refused address": {func(s *stage) {
			asks(s)
			s.send(give(s.t, own, hostAt, machine1, dhcpv4.MessageTypeNak, ""))
		}, "", "no-offer refused-address"},
		"no file for its firmware":  {func(s *stage) { s.lease("", firmware(iana.EFI_IA32)...) }, "", "no-boot-file"},
		"TFTP does not get through": {func(s *stage) { s.lease("snponly.efi", firmware(7)...) }, "", "not-fetched"},
		"no such file": {func(s *stage) {
			s.lease("snponly.efi", firmware(7)...)
			s.refuse(2070, "snponly.efi")
		}, "", "file-refused"},
		"a file breaks off": {func(s *stage) {
			s.lease("snponly.efi", firmware(7)...)
			s.fetch(2070, "snponly.efi", 1000, true)
			s.lease("trivet.ipxe", ipxe()...)
			s.fetch(2072, "trivet.ipxe", 0, true)
			s.fetch(2073, "ironic-agent.initramfs", 640, false)
			s.send(datagram(hardware(s.t, machine1), own, given+":2073", hostAt+":4000",
				[]byte("\x00\x05\x00\x00timed out\x00")))
		}, "", "transfer-broken no-kernel"},
		"its loader does not run": {func(s *stage) {
			for i := range 3 {
				s.lease("snponly.efi", firmware(7)...)
				s.fetch(2070+i, "snponly.efi", 100, true)
			}
		}, "", "loop"},
		"its script's kernel is nowhere": {func(s *stage) {
			s.lease("trivet.ipxe", ipxe()...)
			s.fetch(2070, "trivet.ipxe", 0, true)
		}, "", "no-kernel"},
		"by HTTP": {func(s *stage) {
			s.lease("trivet.ipxe", ipxe()...)
			s.fetch(2070, "trivet.ipxe", 0, true)
			for port, answer := range []string{"HTTP/1.1 200 OK\r\n", "HTTP/1.1 404 Not Found\r\n"} {
				from := fmt.Sprintf("%s:%d", given, 40000+port)
				s.send(segment(hardware(s.t, machine1), own, from, hostAt+":80",
					fmt.Sprintf("GET /boot/file%d HTTP/1.1\r\n", port)))
				s.send(segment(own, hardware(s.t, machine1), hostAt+":80", from, answer))
			}
		}, "", "file-refused no-callback"},
	} {
		finds(t, name, c.boot, c.denied, c.want)
	}
}

// The next leader goes on with the track, and says that it did not hear all.
func TestGapIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.led(func() { s.lease("snponly.efi", firmware(7)...) })
		time.Sleep(time.Minute)
		s.led(func() {
			s.fetch(2070, "snponly.efi", 100, true)
			s.lease("trivet.ipxe", ipxe()...)
		})
		const want = "asked, offered snponly.efi, chose, leased snponly.efi, unheard, fetched snponly.efi, " +
			"asked, offered trivet.ipxe, chose, leased trivet.ipxe"
		if got := told(s.track()); got != want {
			t.Errorf("told is\n%s, want\n%s", got, want)
		}
	})
}

// A flood of invented MACs costs bounded memory and no entry; the machine beside it is heard.
func TestFloodOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		const flood = 20_000
		before := s.log.View().Index()
		s.led(func() {
			for i := range flood {
				s.send(ask(t, fmt.Sprintf("52:54:01:%02x:%02x:%02x", i>>16, i>>8&0xff, i&0xff), dhcpv4.MessageTypeDiscover,
					firmware(7)...))
			}
			time.Sleep(2 * noteEvery)
			if entries := s.log.View().Index() - before; entries > 0 {
				t.Errorf("the flood made %d entries", entries)
			}
			s.lease("snponly.efi", firmware(7)...)
		})
		strangers, unread := s.r.Strangers()
		if len(strangers) > strangersPerSecond || len(strangers) == 0 || unread+len(strangers) != flood {
			t.Errorf("%d strangers are kept, %d messages were not read, of %d", len(strangers), unread, flood)
		}
		if len(s.track().Steps) != 4 {
			t.Errorf("of the machine is told: %s", told(s.track()))
		}
	})
}

// A host that looks for DHCP servers which no rule stops is no machine that asks to boot.
func TestOwnProbeIsNoStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.led(func() {
			for _, mac := range []string{firewall.TestMAC, "52:54:01:00:00:01"} {
				s.send(ask(t, mac, dhcpv4.MessageTypeDiscover, firmware(7)...))
			}
		})
		if all, _ := s.r.Strangers(); len(all) != 1 || all[0].MAC == firewall.TestMAC {
			t.Errorf("strangers are %+v, and one machine asked", all)
		}
	})
}

// What was not committed is not lost, and is not more than one track of each machine.
func TestCommitFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		failing := &failingAuthority{stage: s}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.r.Run(ctx, failing) }()
		for range 100 {
			s.lease("snponly.efi", firmware(7)...)
			time.Sleep(noteEvery)
		}
		synctest.Wait()
		failing.mended.Store(true)
		time.Sleep(2 * noteEvery)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := told(s.track()); got != "asked x100, offered snponly.efi x100, chose x100, leased snponly.efi x100" {
			t.Errorf("told is %s", got)
		}
	})
}

type failingAuthority struct {
	*stage
	mended atomic.Bool
}

func (f *failingAuthority) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	if !f.mended.Load() {
		return fsm.Result{}, errors.New("no quorum")
	}
	return f.stage.Propose(ctx, c)
}
