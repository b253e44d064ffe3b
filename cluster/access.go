package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore"
)

// Bounds of the connections of those who proved who they are.
const (
	// connsPerIdentity bounds the connections of one peer or operator to this
	// port by one protocol; the oldest gives way. A peer keeps three for raft and
	// one for HTTP/2, and a host that was cut off leaves some behind.
	connsPerIdentity = 16
	// partingGrace is for how long an HTTP/2 connection stays whose owner lost its
	// right: it carries the answer to a leave, and the refusals that say why.
	partingGrace = 2 * time.Second
	// rightsCheck is how often open connections are compared with the table of
	// removed peers and with raft's configuration.
	rightsCheck = time.Second
	// certificateCheck is how often certificates of open connections are judged
	// again: they end, and so does the incarnation they were made for.
	certificateCheck = time.Minute
)

// ErrRemovedPeer refuses the certificate of a peer that was removed.
var ErrRemovedPeer = errors.New("the peer was removed from the cluster")

// State is what Access judges by; *raftstore.Store is one.
type State interface {
	Changed() (fsm.View, <-chan struct{})
	Servers() []raftstore.Server
	// Read returns once this peer has applied all that was committed before the
	// call, as a leader has confirmed, or fails.
	Read(ctx context.Context) (fsm.View, error)
}

// Access decides which certificates this peer accepts on connections between
// peers, in both directions, and closes connections that are open when their
// certificate loses its right: its peer was removed, its operator was revoked,
// or it ended. Certificates alone prove too much: they are valid for weeks.
type Access struct {
	end       pki.Endpoint
	network   Network
	log       *slog.Logger
	state     atomic.Pointer[State] // nil before Follow
	joined    []membership.Member   // see NewAccess, as of removed
	removed   map[string]bool       // server IDs
	inquiry   *inquiry
	witnesses *witnesses
	followed  chan struct{} // closed by Follow
	current   freshness
	lookup    lookupHost // of hosts of former members

	mu   sync.Mutex
	open map[*opened]struct{} // connections in either direction
	next uint64               // numbers connections in the order of their beginnings
}

// opened is one connection whose other end has proved who it is.
type opened struct {
	conn     *tls.Conn
	id       pki.Identity
	issued   time.Time // of the certificate
	protocol string
	incoming bool
	number   uint64
	parting  bool // it is closed after partingGrace
}

// Known is the list of the other peers that the answer to a join carries. The
// joiner uses it until its log has arrived.
type Known struct {
	// Members are ID@host:port of the peers' ports.
	Members []string `json:"members,omitempty"`
	// Removed are the server IDs of removed peers.
	Removed []string `json:"removed,omitempty"`
}

// NewAccess returns the rules of a peer with the credentials of end, which at
// its join was told what is known.
func NewAccess(end pki.Endpoint, known Known, log *slog.Logger) *Access {
	a := &Access{
		end: end, network: HostNetwork{}, log: log, open: make(map[*opened]struct{}), removed: make(map[string]bool),
		inquiry:   newInquiry(),
		followed:  make(chan struct{}),
		witnesses: &witnesses{inquiry: newInquiry(), examined: make(chan struct{})}, lookup: net.DefaultResolver.LookupHost,
	}
	for _, server := range known.Members {
		if m, ok := memberAt(server); ok {
			a.joined = append(a.joined, m)
		}
	}
	for _, id := range known.Removed {
		a.removed[id] = true
	}
	return a
}

// Over makes every connection of this peer go over another network than the host's own.
// It is called before any connection is made.
func (a *Access) Over(n Network) { a.network = n }

// memberAt returns what a server address says of a member.
func memberAt(server string) (m membership.Member, ok bool) {
	id, hostport, ok := strings.Cut(server, "@")
	return membership.Member{ID: id, Name: id, Address: hostport}, ok
}

// Follow names the replicated state to judge by, how other members are asked what
// they know of a peer, and what this peer knows of its own disk. It is called
// once. Before, connections are judged by their certificates alone. No request of
// raft is accepted or sent before the others were asked whether this peer had
// stored more than it has.
func (a *Access) Follow(s State, ask Asker, own Own) {
	a.witnesses.own = own
	a.inquiry.ask.Store(&ask)
	a.state.Store(&s)
	close(a.followed)
	go a.examine()
}

// view returns the state that this peer has applied; ok is false before Follow.
func (a *Access) view() (v fsm.View, ok bool) {
	s := a.state.Load()
	if s == nil {
		return v, false
	}
	v, _ = (*s).Changed()
	return v, true
}

// refuses returns why an identity may not call, as far as this peer knows without
// asking others.
func (a *Access) refuses(id pki.Identity, issued time.Time) error {
	v, ok := a.view()
	if !ok {
		return nil
	}
	switch id.Role {
	case pki.RolePeer:
		if _, removed := v.Removed(id.Peer); removed || a.removed[id.Peer] {
			return fmt.Errorf("%w: %s", ErrRemovedPeer, id.Peer)
		}
	case pki.RoleOperator:
		if o, known := v.Operator(id.Operator); known && issued.Unix() <= o.Revoked {
			return fmt.Errorf("this certificate of operator %s was revoked", id.Operator)
		}
	}
	return nil
}

// whyRemoved returns why nothing may be said to or heard from a peer any more. A removed
// peer that raft's configuration still names counts in raft's majorities: until
// the leader has changed the configuration, its votes and acknowledgements may be
// needed, for one when the second of two peers leaves.
func (a *Access) whyRemoved(peer string) error {
	err := a.refuses(pki.Identity{Role: pki.RolePeer, Peer: peer}, time.Time{})
	if err == nil {
		return nil
	}
	named := func(s raftstore.Server) bool { return s.ID == peer }
	if slices.ContainsFunc((*a.state.Load()).Servers(), named) {
		return nil
	}
	return err
}

// Authorize returns why raft must not speak with a peer, nil if it may. See
// host.Network.
func (a *Access) Authorize(peer string) error {
	if err := a.awaitState(); err != nil {
		return err
	}
	// Asked first: the view that follows is then at least as new.
	current := a.current.holds()
	v, _ := a.view()
	if err := a.whyRemoved(peer); err != nil {
		return err
	}
	_, member := v.Member(peer)
	_, leaving := v.Removed(peer)
	if !(member || leaving) || !current {
		if err := a.inquiry.askMembers(peer, a.others(v, peer)); err != nil {
			return err
		}
	}
	return a.vouched(peer)
}

// others are the members that an inquiry about a peer may ask: those of the
// state, or, before the log has arrived, those that the join named.
func (a *Access) others(v fsm.View, peer string) []membership.Member {
	members := v.Members()
	if len(members) == 0 {
		members = slices.Clone(a.joined)
	}
	self := a.end.Credentials().Identity.Peer
	return slices.DeleteFunc(members, func(m membership.Member) bool { return m.ID == peer || m.ID == self })
}

// dial connects to the peer with this server ID by one protocol.
func (a *Access) dial(ctx context.Context, peer, hostport, protocol string) (net.Conn, error) {
	if err := a.whyRemoved(peer); err != nil {
		return nil, err
	}
	conn, err := dialTLS(ctx, a.network, hostport, pki.ClientTLS(a.end, peer, protocol))
	if err != nil {
		return nil, err
	}
	o, err := a.enter(conn, protocol, false)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &leavingConn{Conn: conn, leave: sync.OnceFunc(func() { a.leave(o) })}, nil
}

// PeerAt reports whether a peer has a connection with this one, in either
// direction, whose other end is at an address.
func (a *Access) PeerAt(at netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for o := range a.open { // at most connsPerIdentity for each certificate
		remote, err := netip.ParseAddrPort(o.conn.RemoteAddr().String())
		if err == nil && remote.Addr().Unmap() == at && o.id.Role == pki.RolePeer && !o.parting {
			return true
		}
	}
	return false
}

// MemberAt reports whether an address is that of a member's host: by its number in the
// state, or since a peer has a connection there.
func (a *Access) MemberAt(at netip.Addr) bool {
	members := a.joined
	if v, ok := a.view(); ok {
		members = a.others(v, "")
	}
	for _, m := range members { // a few
		if ip, err := netip.ParseAddr(hostOf(m.Address)); err == nil && ip.Unmap() == at {
			return true
		}
	}
	return a.PeerAt(at)
}

// JoinedAddresses returns where the members are that the join named, host:port.
func (a *Access) JoinedAddresses() (out []string) {
	for _, m := range a.joined {
		out = append(out, m.Address)
	}
	return out
}

// leavingConn leaves the table of connections when it is closed.
type leavingConn struct {
	*tls.Conn
	leave func()
}

// Close implements net.Conn.
func (c *leavingConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// enter notes a connection whose handshake has verified the other end, or
// refuses it. Of too many of one identity the oldest is closed.
func (a *Access) enter(conn *tls.Conn, protocol string, incoming bool) (*opened, error) {
	leaf := conn.ConnectionState().PeerCertificates[0] // the handshake demands one
	id, err := pki.IdentityOf(leaf)
	if err != nil {
		return nil, err
	}
	o := &opened{conn: conn, id: id, issued: pki.IssuedAt(leaf), protocol: protocol, incoming: incoming}
	var oldest *opened
	same := 0
	a.mu.Lock()
	for other := range a.open { // at most connsPerIdentity for each certificate
		if other.incoming && incoming && other.id == id && other.protocol == protocol {
			same++
			if oldest == nil || other.number < oldest.number {
				oldest = other
			}
		}
	}
	o.number, a.next = a.next, a.next+1
	a.open[o] = struct{}{}
	if same < connsPerIdentity {
		oldest = nil
	}
	a.mu.Unlock()
	if oldest != nil {
		a.hangUp(oldest, errors.New("it has too many connections"))
	}
	// Judged after it was noted: a removal is applied either before this, or
	// before the next look at the table.
	a.closeIfRefused(o)
	return o, nil
}

func (a *Access) leave(o *opened) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, o)
}

// hangUp closes a connection, so that it leaves the table.
func (a *Access) hangUp(o *opened, why error) {
	a.log.Debug("connection closed", "peer_id", o.id.Name(), "err", fmt.Errorf("%s: %w", o.protocol, why))
	_ = o.conn.NetConn().Close() // tls.Conn.Close would wait for the other end
	a.leave(o)
}

// closeIfRefused closes a connection that has no right any more. Calls over HTTP/2 are
// answered for partingGrace: by Handler, which refuses them.
func (a *Access) closeIfRefused(o *opened) {
	err := a.refuses(o.id, o.issued)
	if o.id.Role == pki.RolePeer {
		err = a.whyRemoved(o.id.Peer)
	}
	switch {
	case err == nil:
	case o.protocol == protocolHTTP:
		a.mu.Lock()
		defer a.mu.Unlock()
		if !o.parting {
			o.parting = true
			time.AfterFunc(partingGrace, func() { a.hangUp(o, err) })
		}
	default:
		a.hangUp(o, err)
	}
}

// judgeCertificates closes the connections whose certificates have ended.
func (a *Access) judgeCertificates() {
	for _, o := range a.connections() {
		if err := a.end.StillGood(o.conn.ConnectionState()); err != nil {
			a.hangUp(o, err)
		}
	}
}

// Run judges the open connections, by the table each second and as soon as it
// changes, by their certificates each minute, until ctx ends. It begins after
// Follow.
func (a *Access) Run(ctx context.Context) {
	state := *a.state.Load()
	var confirming sync.WaitGroup
	confirming.Go(func() {
		for ctx.Err() == nil {
			pace.Wait(ctx, a.current.confirm(ctx, state))
		}
	})
	defer confirming.Wait()
	rights, certificates := time.NewTicker(rightsCheck), time.NewTicker(certificateCheck)
	defer rights.Stop()
	defer certificates.Stop()
	seen, changed := state.Changed()
	for {
		for _, o := range a.connections() {
			a.closeIfRefused(o)
		}
		for same := true; same; {
			select {
			case <-changed:
				var now fsm.View
				now, changed = state.Changed()
				same, seen = now.SameRights(seen), now
			case <-rights.C: // raft's configuration changes without a new view
				same = false
			case <-certificates.C:
				a.judgeCertificates()
			case <-ctx.Done():
				return
			}
		}
	}
}

func (a *Access) connections() []*opened {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.open))
}

// Bounds of one request between peers, from its header to the end of its body.
// An operator may bring a snapshot of a large site.
const (
	bodyLimit         = 10 * time.Second
	operatorBodyLimit = 10 * time.Minute
)

// Handler answers the calls of removed peers with 403, which tells them to stop, and
// bounds the time in which the others must bring the bodies of theirs. One on whose vote raft
// counts is not told yet: it may ask again.
func (a *Access) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit, status := bodyLimit, http.StatusUnauthorized
		if id, err := caller(r); err == nil {
			switch id.Role {
			case pki.RolePeer:
				status = http.StatusForbidden // ErrNotMember over there
			case pki.RoleOperator:
				limit = operatorBodyLimit
			}
			if err := a.refuses(id, pki.IssuedAt(r.TLS.PeerCertificates[0])); err != nil {
				if id.Role == pki.RolePeer && a.whyRemoved(id.Peer) == nil {
					status = statusBusy
				}
				http.Error(w, err.Error(), status)
				return
			}
		}
		if r.Body != http.NoBody {
			if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(limit)); err != nil {
				http.Error(w, "bound the request: "+err.Error(), http.StatusInternalServerError)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
