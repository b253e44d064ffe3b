package install

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/pxe"
	"github.com/trivet-ha/trivet/internal/portholder"
)

// The UDP ports of dnsmasq.
const (
	portDHCP  = 67
	portTFTP  = 69
	portDHCP6 = 547
)

// TakenError says that another program has a port of dnsmasq's. Nothing was done.
type TakenError struct {
	At   netip.AddrPort
	By   []portholder.Holder
	Unit string // of the program that is to be stopped; "" if it is in none, or not known
}

// Error implements error.
func (e *TakenError) Error() string {
	return fmt.Sprintf("UDP port %v, which dnsmasq needs, is taken by %s", e.At, portholder.Names(e.By))
}

// lookAtPorts refuses a host on which dnsmasq could not bind its ports, and warns where
// it shares one with a DHCP server of another kind. It judges by binding them: another
// dnsmasq may serve another interface.
func (h Host) lookAtPorts(ctx context.Context, s pxe.Server, r *Report) error {
	own, _ := net.InterfaceByName(s.Interface) // may come later
	for _, at := range portsOf(s) {
		holders, err := h.Holders(at)
		if err != nil {
			r.warn("whether another program has UDP port %v is not known: %v", at, err)
			continue
		}
		holders = slices.DeleteFunc(holders, func(p portholder.Holder) bool { return p.Unit == unit })
		if len(holders) == 0 {
			continue
		}
		if errors.Is(h.Bind(ctx, at), syscall.EADDRINUSE) { // not so an address that the host will have
			return &TakenError{At: at, By: holders, Unit: holders[0].Unit}
		}
		others := slices.DeleteFunc(holders, func(p portholder.Holder) bool {
			return p.Program == "dnsmasq" || p.Device != 0 && (own == nil || int(p.Device) != own.Index)
		})
		if len(others) > 0 {
			r.warn("UDP port %v also belongs to %s, which may answer machines next to dnsmasq: stop it, or keep it off %s", at,
				portholder.Names(others), s.Interface)
		}
	}
	return nil
}

// portsOf are the ports that dnsmasq binds: those of DHCP on all interfaces, that of
// TFTP on the addresses of its own.
func portsOf(s pxe.Server) []netip.AddrPort {
	out := []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), portDHCP)}
	if slices.ContainsFunc(s.Pools, func(p pxe.Pool) bool { return p.First.Is6() }) {
		out = append(out, netip.AddrPortFrom(netip.IPv6Unspecified(), portDHCP6))
	}
	for _, a := range s.Addresses {
		out = append(out, netip.AddrPortFrom(a.Addr(), portTFTP))
	}
	return out
}

// Bind binds a UDP port for a moment as dnsmasq does: with others that let it.
func Bind(ctx context.Context, at netip.AddrPort) error {
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) {
			set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			if at.Port() != portTFTP {
				set = errors.Join(set, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
			}
		})
		return errors.Join(err, set)
	}}
	network := "udp4"
	if at.Addr().Is6() {
		network = "udp6"
	}
	conn, err := lc.ListenPacket(ctx, network, at.String())
	if err != nil {
		return err
	}
	return conn.Close()
}
