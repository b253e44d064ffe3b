package rawsocket

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// MaxFrame is how much of a frame is heard, in bytes: all that an interface
// without jumbo frames brings.
const MaxFrame = 1600

// sendLimit bounds the wait for room to send a frame.
const sendLimit = time.Second

// Socket is a packet socket (packet(7)), for whole frames. Sending and hearing
// are for one goroutine each; Close ends both.
type Socket struct{ *os.File }

// Open binds a socket to the interface with that index, for the frames of one
// EtherType that arrive there and that filter keeps; all of them if it is empty.
// What this host itself sends is not heard. The caller closes the socket.
func Open(index int, etherType uint16, filter []bpf.RawInstruction) (Socket, error) {
	// It hears nothing before it is bound, so nothing passes by the filter.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if errors.Is(err, unix.EPERM) {
		return Socket{}, fmt.Errorf("open a packet socket: %w: this process needs CAP_NET_RAW", err)
	}
	if err != nil {
		return Socket{}, fmt.Errorf("open a packet socket: %w", err)
	}
	s := Socket{os.NewFile(uintptr(fd), "packet socket")}
	if len(filter) > 0 { // on a busy network other frames would fill the socket, and the one answer could be lost
		program := make([]unix.SockFilter, len(filter))
		for i, in := range filter {
			program[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
		}
		err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	}
	if err == nil {
		// Its bytes in memory have to be those on the wire.
		protocol := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, etherType))
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: index})
	}
	if err != nil {
		return Socket{}, errors.Join(fmt.Errorf("prepare a packet socket: %w", err), s.Close())
	}
	return s, nil
}

// SameNetwork makes a filter drop frames with a VLAN tag, which are of other networks than the interface's own, for
// a socket bound to the interface with that index and to one EtherType. The kernel takes the tag off before such a
// socket hears the frame. Of a VLAN that this host has no interface for the frame is marked as another host's; of
// another one it has arrived on that VLAN's interface.
func SameNetwork(index int, filter []bpf.RawInstruction) ([]bpf.RawInstruction, error) {
	first, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OTHERHOST, SkipTrue: 2},
		bpf.LoadExtension{Num: bpf.ExtInterfaceIndex},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(index), SkipTrue: 1},
		bpf.RetConstant{Val: 0},
	})
	return slices.Concat(first, filter), err
}

// Send sends one frame, with its Ethernet header, once there is room for it; it
// waits a second for that at most.
func (s Socket) Send(frame []byte) error {
	if err := s.SetWriteDeadline(time.Now().Add(sendLimit)); err != nil {
		return err
	}
	_, err := s.Write(frame)
	return err
}

// Listen hands each frame that arrives within wait to heard, which must not keep
// it, until heard has enough. Silence is no error; if ctx ends first, the error
// is its own.
func (s Socket) Listen(ctx context.Context, wait time.Duration, heard func(frame []byte) (enough bool)) error {
	if err := s.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	// Registered behind the deadline, so that it is never put off by it. The one
	// error there is says that the socket is closed, and then no read is under way.
	stop := context.AfterFunc(ctx, func() { _ = s.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	frame := make([]byte, MaxFrame)
	for {
		n, err := s.Read(frame)
		if over := ctx.Err(); over != nil {
			return over
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		if heard(frame[:n]) {
			return nil
		}
	}
}
