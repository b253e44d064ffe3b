package simnet

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// mostPackets is how many datagrams a host keeps that its process has not read.
const mostPackets = 256

// Datagrams are the UDP and TCP port of gossip of one process. It implements
// memberlist.NodeAwareTransport.
type Datagrams struct {
	process *Process
	at      netip.AddrPort
	ln      net.Listener
	kept    chan *memberlist.Packet // on the host
	packets chan *memberlist.Packet // to the process
	streams chan net.Conn
	closed  context.Context
	close   context.CancelFunc
}

var _ memberlist.NodeAwareTransport = (*Datagrams)(nil)

// Datagrams binds host:port for gossip.
func (p *Process) Datagrams(address string) (*Datagrams, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	ln, err := p.Listen(p.end, address)
	if err != nil {
		return nil, err
	}
	d := &Datagrams{process: p, at: at, ln: ln, kept: make(chan *memberlist.Packet, mostPackets),
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn)}
	d.closed, d.close = context.WithCancel(p.end)
	p.net.mu.Lock()
	p.net.gossiping[at] = d
	p.net.mu.Unlock()
	go d.accept()
	go d.receive()
	return d, nil
}

// accept hands on the streams that others open.
func (d *Datagrams) accept() {
	for {
		c, err := d.ln.Accept()
		if err != nil {
			return
		}
		select {
		case d.streams <- c:
		case <-d.closed.Done():
			_ = c.Close()
			return
		}
	}
}

// receive hands on the datagrams that the host keeps, while the process runs.
func (d *Datagrams) receive() {
	for {
		select {
		case packet := <-d.kept:
			if !d.process.running(d.closed.Done()) {
				return
			}
			select {
			case d.packets <- packet:
			case <-d.closed.Done():
				return
			}
		case <-d.closed.Done():
			return
		}
	}
}

// FinalAdvertiseAddr implements memberlist.Transport.
func (d *Datagrams) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return d.at.Addr().AsSlice(), int(d.at.Port()), nil
}

// WriteTo implements memberlist.Transport.
func (d *Datagrams) WriteTo(b []byte, address string) (time.Time, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return time.Time{}, err
	}
	if d.closed.Err() != nil || d.process.stops.Stopped() != nil {
		return time.Now(), nil // of a stopped process it never leaves
	}
	n := d.process.net
	host, known := n.hostAt(to.Addr())
	if !known {
		return time.Now(), nil
	}
	packet := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(d.at)}
	time.AfterFunc(n.links.Delay(d.process.host, host), func() {
		n.mu.Lock()
		there := n.gossiping[to]
		n.mu.Unlock()
		if there == nil || there.closed.Err() != nil || !n.links.Passes(d.process.host, host) ||
			n.links.Lost(d.process.host, host) {
			return
		}
		packet.Timestamp = time.Now()
		select {
		case there.kept <- packet:
		default: // the host's buffer is full
		}
	})
	return time.Now(), nil
}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (d *Datagrams) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return d.WriteTo(b, a.Addr)
}

// PacketCh implements memberlist.Transport.
func (d *Datagrams) PacketCh() <-chan *memberlist.Packet { return d.packets }

// DialTimeout implements memberlist.Transport.
func (d *Datagrams) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(d.closed, timeout)
	defer cancel()
	return d.process.Dial(ctx, address, false)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport.
func (d *Datagrams) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return d.DialTimeout(a.Addr, timeout)
}

// StreamCh implements memberlist.Transport.
func (d *Datagrams) StreamCh() <-chan net.Conn { return d.streams }

// Shutdown implements memberlist.Transport.
func (d *Datagrams) Shutdown() error {
	d.close()
	if err := d.ln.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
