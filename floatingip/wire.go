package floatingip

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxFrame is how much of a frame is read, in bytes: claims are short.
const maxFrame = 512

// sendLimit bounds the wait for room to send a frame.
const sendLimit = time.Second

// Bounds of a probe: how often it asks, so that one lost frame is not taken for
// silence, and how long it may take.
const (
	probes  = 3
	maxWait = 10 * time.Second
)

// lastLook is for an answer that came while this process was not running: at
// the end of a wait the clock may be seen first, and the answer behind it.
const lastLook = 5 * time.Millisecond

// Announce tells the neighbours that the address is to be found here, in every
// form that they may heed. What this host does not have it announces to nobody:
// the error is ErrNotHeld. It takes 5 to 25 ms, most of it to close the socket.
func (a *Address) Announce(ctx context.Context) error {
	k, err := openKernel(ctx)
	if err != nil {
		return err
	}
	defer k.Close()
	at, err := k.station(a.iface)
	if err != nil {
		return err
	}
	found, err := k.entries(a.ip)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("announce %s: %w", a.ip, ErrNotHeld)
	}
	w, err := openWire(at.index, a.ip)
	if err != nil {
		return fmt.Errorf("announce %s on %s: %w", a.ip, a.iface, err)
	}
	defer w.Close()
	for _, frame := range announcements(a.ip, at.mac) {
		if err := w.send(frame); err != nil {
			return fmt.Errorf("announce %s on %s: %w", a.ip, a.iface, err)
		}
	}
	return nil
}

// Conflict asks the neighbours for the address, three times within wait, at
// most ten seconds, and returns the MAC of the first that is not of this host
// and claims it, or "" when nobody did. The question leaves no trace with the
// neighbours. If ctx ends before, the silence proves nothing, and the error is
// its own.
func (a *Address) Conflict(ctx context.Context, wait time.Duration) (holder string, err error) {
	if wait <= 0 || wait > maxWait {
		return "", fmt.Errorf("probe for %s: a wait of %v is not within %v", a.ip, wait, maxWait)
	}
	k, err := openKernel(ctx)
	if err != nil {
		return "", err
	}
	defer k.Close()
	at, err := k.station(a.iface)
	if err != nil {
		return "", err
	}
	w, err := openWire(at.index, a.ip)
	if err != nil {
		return "", fmt.Errorf("probe for %s on %s: %w", a.ip, a.iface, err)
	}
	defer w.Close()
	own, err := k.stations()
	if err != nil {
		return "", err
	}
	s := search{ip: a.ip, own: own, wire: w}
	if holder, err = s.ask(ctx, probe(a.ip, at.mac), wait); err != nil {
		return "", fmt.Errorf("probe for %s on %s: %w", a.ip, a.iface, err)
	}
	return holder, nil
}

// search looks for somebody else who has the address. A host with two
// interfaces on one link answers itself: its own MACs do not count.
type search struct {
	ip   netip.Addr
	own  map[mac]bool
	wire wire
}

// ask sends the question and listens, as often as probes says.
func (s search) ask(ctx context.Context, question []byte, wait time.Duration) (string, error) {
	for range probes {
		if err := s.wire.send(question); err != nil {
			return "", err
		}
		if holder, err := s.listen(ctx, wait/probes); holder != "" || err != nil {
			return holder, err
		}
	}
	return s.listen(ctx, lastLook)
}

// listen waits for a claim, for as long as wait; "" says that there was none.
func (s search) listen(ctx context.Context, wait time.Duration) (string, error) {
	if err := s.wire.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return "", err
	}
	// Registered behind the deadline, so that it is never put off by it.
	stop := context.AfterFunc(ctx, s.wire.interrupt)
	defer stop()
	frame := make([]byte, maxFrame)
	for {
		n, err := s.wire.Read(frame)
		if over := ended(ctx); over != nil {
			return "", over
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if who, ok := claimant(s.ip, frame[:n]); ok && !s.own[who] {
			return net.HardwareAddr(who[:]).String(), nil
		}
	}
}

// wire is a packet socket on one interface. It is opened for one announcement
// or one probe, and reads the claims of one address.
type wire struct{ *os.File }

func openWire(index int, ip netip.Addr) (wire, error) {
	program, err := claims(ip)
	if err != nil {
		return wire{}, fmt.Errorf("filter for the claims of %s: %w", ip, err)
	}
	// It hears nothing before it is bound, so nothing passes by the filter.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if errors.Is(err, unix.EPERM) {
		return wire{}, fmt.Errorf("open a packet socket: %w: this process needs CAP_NET_RAW", err)
	}
	if err != nil {
		return wire{}, fmt.Errorf("open a packet socket: %w", err)
	}
	w := wire{os.NewFile(uintptr(fd), "packet socket")}
	filters := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filters[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(etherType(ip)), Ifindex: index})
	}
	if err != nil {
		w.Close()
		return wire{}, fmt.Errorf("prepare a packet socket: %w", err)
	}
	return w, nil
}

// send sends one frame, with its Ethernet header, once there is room for it.
func (w wire) send(frame []byte) error {
	if err := w.SetWriteDeadline(time.Now().Add(sendLimit)); err != nil {
		return err
	}
	_, err := w.Write(frame)
	return err
}

// interrupt ends a read that is waiting. The one error there is says that the
// socket is closed, and then nobody reads.
func (w wire) interrupt() { _ = w.SetReadDeadline(time.Unix(1, 0)) }

// networkOrder makes the number whose bytes in memory are those of v on the wire.
func networkOrder(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}
