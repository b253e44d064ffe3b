//go:build e2e

package labtest

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"
)

// wireMessage is one message of DHCP, as it passed a switch.
type wireMessage struct {
	at     time.Time
	link   Link
	kind   string // DISCOVER, OFFER, REQUEST …, or SOLICIT, ADVERTISE, REQUEST6 …
	mac    string // the machine that it is about
	source string // the frame's
	host   int    // whose frame it is; 0: none of the hosts'
	relay  net.IP // giaddr; nil if there is none
	server net.IP // option 54; nil if there is none
}

// answers reports whether it is a server's word.
func (m wireMessage) answers() bool {
	return slices.Contains([]string{"OFFER", "ACK", "NAK", "ADVERTISE", "REPLY"}, m.kind)
}

// misnamed is an error for an answer in which a host calls itself by another address than its own: a machine repeats
// it to the next leader's host, which takes it for its own, and refuses. Silence is what that host owes.
func misnamed(all []wireMessage) error {
	for _, m := range all {
		own := fmt.Sprint(pxeNet, m.host)
		if m.host != 0 && m.answers() && m.server != nil && (m.server.String() != own || m.kind == "NAK") {
			return fmt.Errorf("own-server-name: %s of host %d, which calls itself %v", m.kind, m.host, m.server)
		}
	}
	return nil
}

// wire hears all of DHCP that passes switches of a lab. Its methods may be
// called concurrently.
type wire struct {
	mu    sync.Mutex
	heard []wireMessage
	awake map[string]chan wireMessage // by kind and MAC
}

// listen hears what passes a switch, also what is meant for one port alone,
// until the test ends.
func (w *wire) listen(t testing.TB, n *Net, l Link) {
	t.Helper()
	n.ip(0, "link", "set", string(l), "promisc", "on")
	for _, protocol := range []uint16{unix.ETH_P_IP, unix.ETH_P_IPV6} {
		(&Host{net: n}).hear(t, l, protocol, func(frame []byte) {
			if m, ok := readDHCP(frame); ok {
				m.at, m.link = time.Now(), l
				w.note(m)
			}
		})
	}
}

func (w *wire) note(m wireMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, m)
	if c := w.awake[m.kind+m.mac]; c != nil {
		delete(w.awake, m.kind+m.mac)
		c <- m
	}
}

// await yields the next message of a kind about a machine. One at a time may
// wait for it.
func (w *wire) await(kind, mac string) <-chan wireMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.awake == nil {
		w.awake = make(map[string]chan wireMessage)
	}
	c := make(chan wireMessage, 1)
	w.awake[kind+mac] = c
	return c
}

// about returns what was heard about a machine from a moment on.
func (w *wire) about(mac string, from time.Time) (all []wireMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.heard {
		if m.mac == mac && !m.at.Before(from) {
			all = append(all, m)
		}
	}
	return all
}

// first returns the first message of one of the kinds.
func first(all []wireMessage, kinds ...string) (m wireMessage, ok bool) {
	i := slices.IndexFunc(all, func(m wireMessage) bool { return slices.Contains(kinds, m.kind) })
	if i < 0 {
		return m, false
	}
	return all[i], true
}

// readDHCP reads a frame. A message of DHCPv6 says nothing about its client's
// MAC that all clients agree on, so there it is about the one end of the frame
// that is no host.
func readDHCP(frame []byte) (m wireMessage, ok bool) {
	packet := gopacket.NewPacket(slices.Clone(frame), layers.LayerTypeEthernet, gopacket.NoCopy)
	ethernet, _ := packet.LinkLayer().(*layers.Ethernet)
	if ethernet == nil {
		return m, false
	}
	m.source, m.host = ethernet.SrcMAC.String(), hostOf(ethernet.SrcMAC)
	if v6, _ := packet.Layer(layers.LayerTypeDHCPv6).(*layers.DHCPv6); v6 != nil {
		m.kind, m.mac = kind6(v6.MsgType), ethernet.SrcMAC.String()
		if m.answers() {
			m.mac = ethernet.DstMAC.String()
		}
		return m, m.kind != ""
	}
	v4, _ := packet.Layer(layers.LayerTypeDHCPv4).(*layers.DHCPv4)
	if v4 == nil {
		return m, false
	}
	m.mac = v4.ClientHWAddr.String()
	if !v4.RelayAgentIP.IsUnspecified() {
		m.relay = slices.Clone(v4.RelayAgentIP)
	}
	for _, o := range v4.Options {
		switch {
		case o.Type == layers.DHCPOptMessageType && len(o.Data) == 1:
			m.kind = kind4(layers.DHCPMsgType(o.Data[0]))
		case o.Type == layers.DHCPOptServerID && len(o.Data) == 4:
			m.server = slices.Clone(o.Data)
		}
	}
	return m, m.kind != ""
}

func kind4(t layers.DHCPMsgType) string {
	return map[layers.DHCPMsgType]string{
		layers.DHCPMsgTypeDiscover: "DISCOVER", layers.DHCPMsgTypeOffer: "OFFER", layers.DHCPMsgTypeRequest: "REQUEST",
		layers.DHCPMsgTypeAck: "ACK", layers.DHCPMsgTypeNak: "NAK",
	}[t]
}

func kind6(t layers.DHCPv6MsgType) string {
	return map[layers.DHCPv6MsgType]string{
		layers.DHCPv6MsgTypeSolicit: "SOLICIT", layers.DHCPv6MsgTypeAdvertise: "ADVERTISE",
		layers.DHCPv6MsgTypeRequest: "REQUEST6",
		layers.DHCPv6MsgTypeReply:   "REPLY",
	}[t]
}

// hostOf is the host whose end of a cable where machines boot has a MAC, 0 if
// none does.
func hostOf(at net.HardwareAddr) int {
	if len(at) == 6 && at.String() == mac(PXE, int(at[5])) {
		return int(at[5])
	}
	return 0
}
