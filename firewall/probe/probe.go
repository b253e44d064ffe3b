package probe

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/ether"
	"github.com/trivet-ha/trivet/firewall"
)

// Values of the test.
const (
	// every is how often it is made.
	every = time.Minute
	// asks is how often the request is sent in one test, so that one lost frame
	// is not taken for silence, and patience how long is listened after each:
	// ISC dhcpd looks for another holder of an address for a second first.
	asks     = 2
	patience = 1500 * time.Millisecond
	// maxServers is how many are told apart; more is as wrong.
	maxServers = 16
)

// Options are the parts of a Probe.
type Options struct {
	Interface string // on which machines boot
	Random    io.Reader
	Logger    *slog.Logger
}

// Probe tests the other hosts' filters. Run does it; Found may be called
// concurrently.
type Probe struct {
	o Options

	mu      sync.Mutex
	servers []Server
	err     error
}

// New returns a probe that Run works with.
func New(o Options) *Probe { return &Probe{o: o} }

// Found returns the servers that answered the newest test, in order, and why it
// could not be made, if so. Before the first there is neither.
func (p *Probe) Found() ([]Server, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers, p.err
}

// Run tests at once and then every minute, until ctx ends. What it finds or
// fails at is logged when it changes.
func (p *Probe) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		servers, err := p.test(ctx)
		if ctx.Err() != nil {
			return
		}
		p.note(servers, err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *Probe) note(servers []Server, err error) {
	p.mu.Lock()
	before, failed := p.servers, p.err
	p.servers, p.err = servers, err
	p.mu.Unlock()
	switch {
	case err != nil && failed == nil:
		p.o.Logger.Warn("probe for DHCP servers that bypass the PXE filter failed", "err", err)
	case err == nil && !slices.Equal(servers, before) && len(servers) > 0:
		p.o.Logger.Warn("DHCP servers bypass the PXE filter", "servers", servers)
	case err == nil && !slices.Equal(servers, before):
		p.o.Logger.Info("no DHCP server bypasses the PXE filter any more")
	case err == nil && failed != nil:
		p.o.Logger.Info("probe for DHCP servers that bypass the PXE filter works again")
	}
}

// test asks for an address and returns the servers that answer. It takes asks
// times patience.
func (p *Probe) test(ctx context.Context) ([]Server, error) {
	mac, err := net.ParseMAC(firewall.TestMAC)
	if err != nil {
		return nil, fmt.Errorf("the MAC of the test: %w", err)
	}
	var random [4]byte
	if _, err := io.ReadFull(p.o.Random, random[:]); err != nil {
		return nil, fmt.Errorf("draw a transaction: %w", err)
	}
	xid := binary.BigEndian.Uint32(random[:])
	socket, err := p.open(xid)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	var found []Server
	for range asks {
		if err := socket.Send(discover(mac, xid)); err != nil {
			return nil, fmt.Errorf("send a request on %s: %w", p.o.Interface, err)
		}
		err := socket.Listen(ctx, patience, func(frame []byte) bool {
			if s, ok := offer(frame, mac, xid); ok && !slices.Contains(found, s) {
				found = append(found, s)
			}
			return len(found) == maxServers
		})
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", p.o.Interface, err)
		}
	}
	slices.SortFunc(found, Server.compare)
	return found, nil
}

// open opens a socket for the answers to one request. The interface may have
// gone and come back since the test before.
func (p *Probe) open(xid uint32) (ether.Socket, error) {
	link, err := net.InterfaceByName(p.o.Interface)
	if err != nil {
		return ether.Socket{}, fmt.Errorf("firewall.interface: this host has no interface %q; create it, or correct the name", p.o.Interface)
	}
	if link.Flags&net.FlagUp == 0 {
		return ether.Socket{}, fmt.Errorf("firewall.interface: %s is down; set it up", p.o.Interface)
	}
	program, err := answers(xid)
	if err != nil {
		return ether.Socket{}, fmt.Errorf("filter for answers: %w", err)
	}
	socket, err := ether.Open(link.Index, unix.ETH_P_IP, program)
	if err != nil {
		return ether.Socket{}, fmt.Errorf("on %s: %w", p.o.Interface, err)
	}
	return socket, nil
}
