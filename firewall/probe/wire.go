package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxFrame is how much of a frame is read, in bytes: an answer fits.
const maxFrame = 1600

// sendLimit bounds the wait for room to send a frame.
const sendLimit = time.Second

// wire is a packet socket on one interface, for one test: the interface may have
// gone and come back before the next.
type wire struct{ *os.File }

// openWire opens an interface, in the network namespace of the calling thread,
// and lets the answers to one request through.
func openWire(name string, xid uint32) (wire, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return wire{}, fmt.Errorf("firewall.interface: this host has no interface %q; create it, or correct the name", name)
	}
	if link.Flags&net.FlagUp == 0 {
		return wire{}, fmt.Errorf("firewall.interface: %s is down; set it up", name)
	}
	program, err := answers(xid)
	if err != nil {
		return wire{}, fmt.Errorf("filter for answers: %w", err)
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
		// Only what arrives is of this protocol: a socket for all of them would
		// also see what this host sends.
		protocol := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_IP))
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: link.Index})
	}
	if err != nil {
		return wire{}, errors.Join(fmt.Errorf("prepare a packet socket on %s: %w", name, err), w.Close())
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
