package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Values of the test.
const (
	// every is how often it is made.
	every = time.Minute
	// asks is how often the request is sent in one test, so that one lost frame
	// is not taken for silence, and listenTime how long is listened after each:
	// ISC dhcpd looks for another holder of an address for a second first.
	asks       = 2
	listenTime = 1500 * time.Millisecond
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
	for range pace.Every(ctx, every) {
		servers, err := p.Test(ctx)
		if ctx.Err() != nil {
			return
		}
		p.recordAnswers(servers, err)
	}
}

func (p *Probe) recordAnswers(servers []Server, err error) {
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

// Test asks for an address by DHCP, and by DHCPv6 where the interface has an IPv6
// address, and returns the servers that answer, in order. It takes 3 s.
func (p *Probe) Test(ctx context.Context) ([]Server, error) {
	link, err := net.InterfaceByName(p.o.Interface) // it may have gone and come back since the test before
	if err != nil {
		return nil, fmt.Errorf("firewall.interface: this host has no interface %q; create it, or correct the name",
			p.o.Interface)
	}
	if link.Flags&net.FlagUp == 0 {
		return nil, fmt.Errorf("firewall.interface: %s is down; set it up", p.o.Interface)
	}
	queries, err := p.queries(link)
	if err != nil {
		return nil, err
	}
	// Sockets belong to the network namespace of the thread that opens them.
	sockets := make([]rawsocket.Socket, 0, len(queries))
	defer func() {
		for _, s := range sockets {
			_ = s.Close() // nothing is lost with it
		}
	}()
	for _, q := range queries {
		filter, err := rawsocket.SameNetwork(link.Index, q.filter)
		if err != nil {
			return nil, fmt.Errorf("filter for frames of %s: %w", p.o.Interface, err)
		}
		s, err := rawsocket.Open(link.Index, q.etherType, filter)
		if err != nil {
			return nil, fmt.Errorf("on %s: %w", p.o.Interface, err)
		}
		sockets = append(sockets, s)
	}
	found, failed := make([][]Server, len(queries)), make([]error, len(queries))
	var work sync.WaitGroup
	for i, q := range queries {
		work.Go(func() { found[i], failed[i] = p.sendQuery(ctx, sockets[i], q) })
	}
	work.Wait()
	all := slices.Concat(found...)
	slices.SortStableFunc(all, Server.compare)
	return all[:min(len(all), maxServers)], errors.Join(failed...)
}

// query is a question of one protocol.
type query struct {
	etherType uint16
	filter    []bpf.RawInstruction // passes the answers
	request   []byte
	answer    func(frame []byte) (Server, bool)
}

// queries are those of one test, with one transaction.
func (p *Probe) queries(link *net.Interface) ([]query, error) {
	mac, err := net.ParseMAC(firewall.TestMAC)
	if err != nil {
		return nil, fmt.Errorf("the MAC of the test: %w", err)
	}
	var random [4]byte
	if _, err := io.ReadFull(p.o.Random, random[:]); err != nil {
		return nil, fmt.Errorf("draw a transaction: %w", err)
	}
	xid := binary.BigEndian.Uint32(random[:])
	filter, err := answers(xid)
	if err != nil {
		return nil, fmt.Errorf("filter for DHCP answers: %w", err)
	}
	all := []query{{unix.ETH_P_IP, filter, discover(mac, xid),
		func(frame []byte) (Server, bool) { return offer(frame, mac, xid) }}}
	addresses, err := link.Addrs()
	if err != nil {
		return all, fmt.Errorf("list the addresses of %s: %w", link.Name, err)
	}
	var from netip.Addr // the interface's own
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && prefix.Addr().Is6() && prefix.Addr().IsLinkLocalUnicast() {
			from = prefix.Addr().WithZone("")
			break
		}
	}
	if !from.IsValid() { // IPv6 is off there, and no machine boots by it
		return all, nil
	}
	if filter, err = answers6(xid); err != nil {
		return nil, fmt.Errorf("filter for DHCPv6 answers: %w", err)
	}
	return append(all, query{unix.ETH_P_IPV6, filter, solicit(mac, from, xid),
		func(frame []byte) (Server, bool) { return advertisement(frame, from, xid) }}), nil
}

// sendQuery sends a query's request and gathers the servers that answer.
func (p *Probe) sendQuery(ctx context.Context, socket rawsocket.Socket, q query) (found []Server, err error) {
	for range asks {
		if err := socket.Send(q.request); err != nil {
			return nil, fmt.Errorf("send a request on %s: %w", p.o.Interface, err)
		}
		err := socket.Listen(ctx, listenTime, func(frame []byte) bool {
			if s, ok := q.answer(frame); ok && !slices.Contains(found, s) {
				found = append(found, s)
			}
			return len(found) == maxServers
		})
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", p.o.Interface, err)
		}
	}
	return found, nil
}
