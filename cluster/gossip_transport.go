package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Bounds of gossip's TCP streams. memberlist reads up to 20 MiB of one before it
// knows whether the sender has the key.
const (
	// maxGossipStreams and maxGossipPerHost bound the streams that others open.
	maxGossipStreams = 32
	maxGossipPerHost = 8
	// maxGossipBytes bounds what is read of one stream. The state of
	// membership.MaxMembers peers takes less than 1 KiB each.
	maxGossipBytes = 256 << 10
	// resolveLimit bounds the look-up of all members' names.
	resolveLimit = 3 * time.Second
)

var errGossipTooLong = errors.New("the stream has more bytes than the state of all members")

// gossipTransport takes streams from members' hosts only, few at once, and little
// of each. Datagrams pass: one costs at most 64 KiB, for as long as it takes to
// find that its key is wrong, and its source is easily forged.
type gossipTransport struct {
	memberlist.NodeAwareTransport
	hosts  func() []string         // of members: host or host:port
	proven func(a netip.Addr) bool // a member's certificate has connected from there
	log    *slog.Logger
	out    chan net.Conn
	stop   chan struct{} // closed when Shutdown begins
	ended  chan struct{} // closed when the inner transport is shut down
	once   sync.Once
	done   sync.WaitGroup

	resolved atomic.Pointer[map[netip.Addr]bool] // of members' names
	open     *admission.Table                    // streams, by host
}

func newGossipTransport(inner memberlist.NodeAwareTransport, o GossipOptions) *gossipTransport {
	t := &gossipTransport{
		NodeAwareTransport: inner, hosts: o.Hosts, proven: o.Proven, log: o.Logger, out: make(chan net.Conn),
		stop: make(chan struct{}), ended: make(chan struct{}), open: admission.NewTable(maxGossipStreams, maxGossipPerHost),
	}
	t.resolved.Store(&map[netip.Addr]bool{})
	t.done.Go(t.filter)
	return t
}

// StreamCh implements memberlist.Transport.
func (t *gossipTransport) StreamCh() <-chan net.Conn { return t.out }

// DialTimeout implements memberlist.Transport.
func (t *gossipTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout implements memberlist.NodeAwareTransport: answers are bounded
// as streams of others are.
func (t *gossipTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	conn, err := t.NodeAwareTransport.DialAddressTimeout(a, timeout)
	if err != nil {
		return nil, err
	}
	return &gossipStream{Conn: conn, left: maxGossipBytes, leave: func() {}}, nil
}

// Shutdown implements memberlist.Transport.
func (t *gossipTransport) Shutdown() (err error) {
	t.once.Do(func() {
		close(t.stop)
		err = t.NodeAwareTransport.Shutdown() // waits for its listeners, which filter unblocks
		close(t.ended)
		t.done.Wait()
	})
	return err
}

// filter hands on the streams that are admitted, until Shutdown.
func (t *gossipTransport) filter() {
	for {
		select {
		case conn := <-t.NodeAwareTransport.StreamCh():
			stream := t.admit(conn)
			if stream == nil {
				_ = conn.Close() // nothing was said
				continue
			}
			select {
			case t.out <- stream:
			case <-t.stop:
				_ = stream.Close()
			}
		case <-t.ended:
			return
		}
	}
}

// admit returns the bounded stream of a member's host, nil for any other and for
// one too many. The host that has the most loses its oldest for one of another host.
func (t *gossipTransport) admit(conn net.Conn) net.Conn {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	source := at.Addr().Unmap()
	// No name server is asked: resolve has done so.
	member := slices.ContainsFunc(t.hosts(), func(host string) bool { // a few for each member
		ip, err := netip.ParseAddr(hostOf(host))
		return err == nil && ip.Unmap() == source
	})
	member = member || (*t.resolved.Load())[source] || t.proven != nil && t.proven(source)
	if err != nil || !member {
		t.log.Debug("gossip: stream refused, its source is no member's address", "from", conn.RemoteAddr().String())
		return nil
	}
	host := netip.PrefixFrom(source.WithZone(""), source.BitLen()) // members may have a /64 in common
	held, surplus := t.open.Enter(host, false, func() { _ = conn.Close() })
	if surplus == held {
		return nil
	}
	if surplus != nil {
		surplus.End()
	}
	held.Idle(false) // it says something, as long as it is open
	return &gossipStream{Conn: conn, left: maxGossipBytes, leave: held.Leave}
}

// resolve looks up the addresses of members that are known by name.
func (t *gossipTransport) resolve(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, resolveLimit)
	defer cancel()
	found := make(map[netip.Addr]bool)
	asked := make(map[string]bool)
	for _, host := range t.hosts() {
		name := hostOf(host)
		if _, err := netip.ParseAddr(name); err == nil || name == "" || asked[name] {
			continue
		}
		asked[name] = true
		addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		if err != nil {
			t.log.Debug("gossip: resolve member failed", "host", name, "err", err)
			for a := range *t.resolved.Load() { // names outlive a name server
				found[a] = true
			}
		}
		for _, a := range addresses {
			found[a.Unmap()] = true
		}
	}
	t.resolved.Store(&found)
}

// gossipStream yields a bounded number of bytes.
type gossipStream struct {
	net.Conn
	left  int // memberlist reads from one goroutine
	leave func()
}

// Read implements net.Conn.
func (s *gossipStream) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, errGossipTooLong
	}
	n, err := s.Conn.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// Close implements net.Conn.
func (s *gossipStream) Close() error {
	s.leave()
	return s.Conn.Close()
}

// hostOf returns the host of an address, all of it if it has no port.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
