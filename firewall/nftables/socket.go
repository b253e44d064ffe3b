package nftables

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Bounds of one exchange with the kernel. It answers within the system call
// that asks; what can take long is another's transaction that goes first.
const (
	waitLimit  = 10 * time.Second
	sendBuffer = 4 << 20 // bytes of one transaction; twice 50,000 MACs are 2 MB
	// readBuffer is twice what the kernel puts into one part of a list. To go on
	// with the next part it walks through the whole set again, so parts should
	// be large.
	readBuffer = 64 << 10
)

// errStale says that the ruleset changed after it was read; nothing was written.
var errStale = errors.New("another program changed the ruleset at the same time")

// socket is a netlink socket that lasts. It is dialled when it is needed and
// closed after any failure, because an answer that is still under way would be
// taken for that to the next request. One goroutine uses it.
type socket struct {
	netns int // a file descriptor; 0: where the calling thread is
	ports *ports
	conn  *netlink.Conn
}

// exchange runs do, bounded by ctx and waitLimit.
func (s *socket) exchange(ctx context.Context, do func(*netlink.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.dial(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	conn := s.conn
	stop := context.AfterFunc(limited, func() {
		_ = conn.SetDeadline(time.Unix(1, 0)) // ends what do waits for; fails only on a closed socket
	})
	err := do(conn)
	if !stop() || err != nil {
		err = errors.Join(err, s.close())
	}
	if err != nil && limited.Err() != nil {
		return fmt.Errorf("the kernel did not answer in time: %w", limited.Err())
	}
	return explain(err)
}

func (s *socket) dial() error {
	if s.conn != nil {
		return nil
	}
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: s.netns, MessageBufferSize: readBuffer})
	if err != nil {
		return fmt.Errorf("open a netlink socket to netfilter (kernel module nfnetlink): %w", explain(err))
	}
	// Answers to what failed need not repeat it; at 20 kB each they would not fit.
	err = errors.Join(conn.SetWriteBuffer(sendBuffer), conn.SetOption(netlink.CapAcknowledge, true))
	if err != nil {
		return errors.Join(fmt.Errorf("set up a netlink socket: %w", err), conn.Close())
	}
	s.ports.add(conn.PID())
	s.conn = conn
	return nil
}

func (s *socket) close() error {
	if s.conn == nil {
		return nil
	}
	s.ports.remove(s.conn.PID())
	err := s.conn.Close()
	s.conn = nil
	return err
}

// commit makes the changes in one transaction: all of them or none. Unless
// generation is zero it fails with errStale if the ruleset is at another.
func (s *socket) commit(ctx context.Context, generation uint32, changes ...netlink.Message) error {
	err := s.exchange(ctx, func(conn *netlink.Conn) error {
		// Failures are answered always, and before the one acknowledgement asked for.
		changes[len(changes)-1].Header.Flags |= netlink.Acknowledge
		sent, err := conn.SendMessages(transaction(generation, changes))
		if err != nil {
			return err
		}
		answer, err := conn.Receive()
		if err != nil {
			return err
		}
		asked := sent[len(sent)-2].Header.Sequence
		if len(answer) != 1 || answer[0].Header.Sequence != asked {
			return fmt.Errorf("netlink answered something else than transaction %d: outcome unknown", asked)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write to nftables: %w", err)
	}
	return nil
}

// ask returns the kernel's answer to a request, all of it.
func (s *socket) ask(ctx context.Context, request netlink.Message) (answer []netlink.Message, err error) {
	err = s.exchange(ctx, func(conn *netlink.Conn) error {
		answer, err = conn.Execute(request)
		return err
	})
	return answer, err
}

// explain adds to an error of the kernel what to do about it.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.ERESTART):
		return errStale
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: nftables needs the capability CAP_NET_ADMIN", err)
	case errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%w: a list has more than the %d MACs that are supported", err, maxMACs)
	case errors.Is(err, unix.EMSGSIZE):
		return fmt.Errorf("%w: the lists do not fit the socket's send buffer; raise net.core.wmem_max to 4 MiB", err)
	}
	return err
}

// ports are the netlink addresses of our own sockets, by which the watch knows
// our own transactions. Its methods may be called concurrently.
type ports struct{ own sync.Map } // of uint32

func (p *ports) add(port uint32)    { p.own.Store(port, true) }
func (p *ports) remove(port uint32) { p.own.Delete(port) }

func (p *ports) has(port uint32) bool {
	_, own := p.own.Load(port)
	return own
}
