//go:build e2e

package labtest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/test/testenv"
)

// Numbers of DHCPv6: what asks for what was offered, what gives it, who does,
// and the URL of what to boot.
const (
	requestKind    = 3
	replyKind6     = 7
	optionServer   = 2
	optionBootFile = 59
)

// offerLimit bounds the wait for the offers of all DHCP servers.
const offerLimit = 10 * time.Second

// TestMachinesAreOfferedTheirBootFile runs dnsmasq on three hosts as each peer
// says, lets machines of every kind ask, over both protocols, and looks at what
// each host offers: the boot file of that kind, and an address that nobody offers
// to another machine. Over IPv6 it is taken, too: some firmware heeds only the file
// of that answer. The leader's host, too, calls itself by its own address, not by the
// floating IP, which is another host's when the machine repeats it.
func TestMachinesAreOfferedTheirBootFile(t *testing.T) {
	t.Parallel()
	installGate(t)
	l := NewHosts(t)
	l.net.bridge(PXE)
	l.furnish = func(p *Peer) {
		p.Host.plug(PXE, p.Host.pxe())
		p.Env = append(p.Env, fmt.Sprint("TRIVET_FLOATING_IP_ADDRESS=", pxeNet, floatingHost),
			"TRIVET_FLOATING_IP_INTERFACE="+string(PXE))
	}
	l.Trio("h1", "h2", "h3")
	for _, p := range l.Peers {
		p.serveBoot()
	}
	l.awaitAddress()
	client := l.net.bootClient()
	wire4 := client.socket(PXE, unix.ETH_P_IP)
	wire6 := client.socket(PXE, unix.ETH_P_IPV6)

	given := make(map[netip.Addr]int)
	for n, kind := range []struct {
		name, file string
		arch       byte
		ipxe, six  bool
	}{
		{"BIOS", "undionly.kpxe", 0, false, false}, {"UEFI", "snponly.efi", 7, false, true},
		{"UEFI, the other number", "snponly.efi", 9, false, true},
		{"UEFI on ARM", "snponly-arm64.efi", 11, false, true}, {"iPXE from BIOS", pxe.ScriptName, 0, true, false},
		{"iPXE from UEFI", pxe.ScriptName, 7, true, true},
	} {
		asks := []bootRequest{{wire: wire4, mac: []byte{2, 0, 0, 0, 1, byte(n)}, arch: kind.arch, ipxe: kind.ipxe}}
		if kind.six {
			asks = append(asks, bootRequest{wire: wire6, mac: []byte{2, 0, 0, 0, 2, byte(n)}, arch: kind.arch, ipxe: kind.ipxe,
				six: true})
		}
		for _, ask := range asks {
			offers := ask.offers(t, len(l.Peers))
			for host, o := range offers {
				want := kind.file
				if ask.six {
					want = fmt.Sprintf("tftp://[%s%d]/%s", pxeNet6, host, kind.file)
				}
				if o.file != want {
					t.Errorf("%s: host %d offers %q, want %q", kind.name, host, o.file, want)
				}
				if other, twice := given[o.address]; twice { // nobody has taken up an offer
					t.Errorf("%s: host %d offers %v, which host %d has offered to another machine", kind.name, host, o.address, other)
				}
				given[o.address] = host
				if own, _ := netip.AddrFromSlice(o.server); !ask.six {
					if host > len(l.Peers) || own.String() != fmt.Sprint(pxeNet, host) {
						t.Errorf("own-server-name: %s: host %d calls itself %v", kind.name, host, own)
					}
					continue
				}
				if got := ask.take(t, host, o); got.file != want || got.address != o.address {
					t.Errorf("%s: host %d, which offered %v, gives %v and %q", kind.name, host, o.address, got.address, got.file)
				}
			}
		}
	}
}

// awaitAddress waits until a host has the floating IP where machines boot.
func (l *Lab) awaitAddress() {
	l.t.Helper()
	l.Eventually(electLimit, "a host has the floating IP", func() error {
		for _, p := range l.Peers {
			show := p.Host.Command("ip", "address", "show", "to", fmt.Sprint(pxeNet, floatingHost))
			if out, err := show.Output(); len(out) > 0 {
				return err
			}
		}
		return errors.New("none has it")
	})
}

// serveBoot starts dnsmasq with what the peer prints, and nothing else but
// where it keeps its own files.
func (p *Peer) serveBoot() {
	p.t.Helper()
	dir := filepath.Join(p.lab.dir, p.Name+"-boot")
	words := []any{"dnsmasq-config", "--firewall-interface", string(PXE), "--tftp-root", dir, p.On()}
	testenv.PutFile(p.t, dir, "dnsmasq.conf", p.Must(words...))
	p.Host.dnsmasq(dir, "--conf-file="+dir+"/dnsmasq.conf")
}

// bootRequest is a machine of one kind that looks for somebody to boot from.
type bootRequest struct {
	wire rawsocket.Socket
	mac  net.HardwareAddr
	arch byte
	ipxe bool // it is iPXE already
	six  bool // over DHCPv6
}

// offer is what one host would give it.
type offer struct {
	address netip.Addr
	file    string
	// What a request repeats of it; the latter over DHCPv6 alone.
	server, association []byte
}

// offers asks until so many hosts have answered.
func (r bootRequest) offers(t *testing.T, hosts int) map[int]offer {
	t.Helper()
	got := make(map[int]offer)
	ask, read := r.solicit(), func(frame []byte) (int, offer, bool) { return r.readAnswer(frame, advertiseKind) }
	if !r.six {
		ask, read = r.discover(t), r.readOffer
	}
	r.until(t, ask, func(frame []byte) bool {
		if host, o, ok := read(frame); ok {
			got[host] = o
		}
		return len(got) == hosts
	})
	return got
}

// take asks a host for what it offered over DHCPv6, and returns what it gives.
func (r bootRequest) take(t *testing.T, host int, o offer) (given offer) {
	t.Helper()
	r.until(t, r.message6(requestKind, o.association, o.server), func(frame []byte) bool {
		from, got, ok := r.readAnswer(frame, replyKind6)
		given = got
		return ok && from == host
	})
	return given
}

// lease takes what a host, which may be the only one that answers, gives.
func (r bootRequest) lease(t *testing.T, host int) offer {
	t.Helper()
	offered, ok := r.offers(t, 1)[host]
	if !ok {
		t.Fatalf("%v: another than host %d made an offer", r.mac, host)
	}
	return r.take(t, host, offered)
}

// until sends a question again and again, and hands over what comes until it is
// answered.
func (r bootRequest) until(t *testing.T, question []byte, answered func(frame []byte) bool) {
	t.Helper()
	frame := make([]byte, 2048)
	for end := time.Now().Add(offerLimit); ; {
		if time.Now().After(end) {
			t.Fatalf("%v: not every host that was asked answered", r.mac)
		}
		if _, err := r.wire.Write(question); err != nil {
			t.Fatal(err)
		}
		testenv.Must(t, r.wire.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
		for {
			n, err := r.wire.Read(frame)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			testenv.Must(t, err)
			if answered(frame[:n]) {
				return
			}
		}
	}
}

// discover is a DHCPDISCOVER with the client's architecture (RFC 4578), which asks for server and file.
func (r bootRequest) discover(t *testing.T) []byte {
	t.Helper()
	m := bootp(t, r.mac, nil, dhcpv4.MessageTypeDiscover, nil)
	m.UpdateOption(dhcpv4.OptParameterRequestList(dhcpv4.OptionTFTPServerName, dhcpv4.OptionBootfileName))
	m.UpdateOption(dhcpv4.OptClientArch(iana.Arch(r.arch)))
	if r.ipxe {
		m.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(175), []byte{0xb0, 1, 1}))
	}
	return append(ethernet(r.mac, unix.ETH_P_IP), datagram(68, net.IPv4zero, net.IPv4bcast, m.ToBytes())...)
}

func (r bootRequest) readOffer(frame []byte) (host int, o offer, ok bool) {
	m := answer4(frame)
	if m == nil || !bytes.Equal(m.ClientHWAddr, r.mac) {
		return 0, o, false
	}
	o.address, _ = netip.AddrFromSlice(m.YourIPAddr.To4())
	o.server, o.file = m.ServerIdentifier().To4(), m.BootFileNameOption()
	return int(m.ServerIPAddr.To4()[3]), o, true // where the file is
}

// solicit is a DHCPv6 SOLICIT.
func (r bootRequest) solicit() []byte {
	return r.message6(solicitKind, append([]byte{0, 0, 0, 1}, make([]byte, 8)...), nil)
}

// message6 is a DHCPv6 message that asks for a boot file and says for what
// architecture (RFC 5970), to all servers or to one.
func (r bootRequest) message6(kind byte, association, server []byte) []byte {
	message := append([]byte{kind}, r.mac[3:]...)
	message = option6(message, optionClient, solicit{r.mac}.duid())
	if server != nil {
		message = option6(message, optionServer, server)
	}
	message = option6(message, optionAddress, association)
	message = option6(message, optionElapsed, []byte{0, 0})
	message = option6(message, 6, []byte{0, optionBootFile})
	message = option6(message, 61, []byte{0, r.arch})
	if r.ipxe {
		message = option6(message, 15, append([]byte{0, 4}, "iPXE"...))
	}
	if len(message)%2 == 1 { // the sum is over pairs; what follows the last option is nothing
		message = append(message, 0)
	}
	return frame6(r.mac, linkLocal(r.mac), netip.MustParseAddr("ff02::1:2"), unix.IPPROTO_UDP, 6, udp6(546, message))
}

// readAnswer reads an answer to it. The servers ask first where the machine is,
// which is answered.
func (r bootRequest) readAnswer(frame []byte, kind byte) (host int, o offer, ok bool) {
	if len(frame) >= endTarget && frame[atHeader6] == unix.IPPROTO_ICMPV6 && frame[atBody6] == 135 &&
		bytes.Equal(frame[atTarget6:endTarget], linkLocal(r.mac).AsSlice()) {
		r.advertiseSelf()
		return 0, o, false
	}
	if len(frame) < atDHCP6+4 || frame[atHeader6] != unix.IPPROTO_UDP || frame[atDHCP6] != kind ||
		!bytes.Equal(client6(frame[atDHCP6:]), solicit{r.mac}.duid()) {
		return 0, o, false
	}
	for code, value := range options6(frame[atDHCP6+4:]) {
		switch code {
		case optionServer:
			o.server = bytes.Clone(value)
		case optionAddress:
			o.association = bytes.Clone(value)
			for inner, address := range options6(value[12:]) {
				if inner == 5 {
					o.address, _ = netip.AddrFromSlice(address[:16])
				}
			}
		case optionBootFile:
			o.file = string(value)
		}
	}
	return int(frame[11]), o, true
}

// advertiseSelf tells everybody where this machine is (RFC 4861). One that is
// lost is asked for again.
func (r bootRequest) advertiseSelf() {
	body := append([]byte{136, 0, 0, 0, 0x20, 0, 0, 0}, linkLocal(r.mac).AsSlice()...)
	body = append(append(body, 2, 1), r.mac...)
	_, _ = r.wire.Write(frame6(r.mac, linkLocal(r.mac), netip.MustParseAddr("ff02::1"), unix.IPPROTO_ICMPV6, 2, body))
}
