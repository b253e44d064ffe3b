package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/net/http2"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/batcher"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// Paths between peers.
const (
	pathPropose   = "/peer/v1/proposals"
	pathReadIndex = "/peer/v1/read-index"
)

// PathJoin is where joiners, who have no certificate yet, ask to be admitted.
const PathJoin = "/peer/v1/join"

// PathObserve is PathJoin for those who join as observers. It is a path of its
// own because older peers would overlook the word in the request.
const PathObserve = "/peer/v1/observe"

// PathSettings is where joiners ask what they would be given, before they ask to be
// admitted. Older peers do not answer it.
const PathSettings = "/peer/v1/join-settings"

// PathMove is where a peer says that it is dialled elsewhere from now on.
const PathMove = "/peer/v1/address"

// maxClients bounds the connections kept to other peers; a cluster has few.
const maxClients = 16

// maxReads bounds the readers that share one question to the leader.
const maxReads = 4096

// maxWaiting bounds the reads, and the commands, that wait for a call to one peer.
const maxWaiting = 1 << 16

// readIndexSize is how many bytes a read index has.
const readIndexSize = 8

// Forwarder carries a follower's questions to the leader over the peers' port.
// It implements raftstore.Forwarder. Readers that wait together share one
// question, and commands go in few calls: of each, what comes while calls are
// under way is gathered. Alone, a call costs the two peers as much as applying
// its command does.
type Forwarder struct {
	access *Access
	life   context.Context
	stop   context.CancelFunc

	mu    sync.Mutex
	links map[string]*link // by server address
}

// link is the way to one other peer.
type link struct {
	hostport  string
	transport *http2.Transport
	proposals *batcher.Batcher[[]byte, []byte]
	reads     *batcher.Batcher[struct{}, uint64]
}

// NewForwarder calls the peers that access allows, with its credentials.
func NewForwarder(access *Access) *Forwarder {
	f := &Forwarder{access: access, links: make(map[string]*link)}
	f.life, f.stop = context.WithCancel(context.Background())
	return f
}

// errDial marks a call that never left: nothing was appended anywhere.
var errDial = errors.New("dial")

func (f *Forwarder) link(address string) (*link, error) {
	id, hostport, ok := strings.Cut(address, "@")
	if !ok {
		return nil, fmt.Errorf("%w: server address %q is not ID@host:port", logerr.ErrNoLeader, address)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if l, ok := f.links[address]; ok {
		return l, nil
	}
	if len(f.links) >= maxClients {
		f.forget()
	}
	l := &link{hostport: hostport, transport: &http2.Transport{
		ReadIdleTimeout: keepAlive,
		DialTLSContext: func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
			conn, err := f.access.dial(ctx, id, hostport, protocolHTTP)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errDial, err)
			}
			return conn, nil
		},
	}}
	// Two calls at once, so that a large command does not hold up all others.
	l.proposals = batcher.New(batcher.Options[[]byte, []byte]{
		Send: l.sendProposals, Context: f.life, Parallel: 2, MaxCalls: maxProposals, MaxWaiting: maxWaiting,
		Size: func(command []byte) int { return len(command) }, MaxSize: maxProposalBytes,
	})
	l.reads = batcher.New(batcher.Options[struct{}, uint64]{
		Send: l.sendRead, Context: f.life, Parallel: 1, MaxCalls: maxReads, MaxWaiting: maxWaiting,
	})
	f.links[address] = l
	return l, nil
}

// forget drops the connections that carry nothing; the caller holds the lock.
func (f *Forwarder) forget() {
	for _, l := range f.links {
		l.transport.CloseIdleConnections()
	}
	clear(f.links)
}

// Close ends the calls under way and the connections. Commands whose answer has
// not come stay unknown.
func (f *Forwarder) Close() {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.links {
		l.proposals.Close()
		l.reads.Close()
	}
	f.forget()
}

// Propose implements raftstore.Forwarder.
func (f *Forwarder) Propose(ctx context.Context, leader raftstore.Server, payload []byte) ([]byte, error) {
	l, err := f.link(leader.Address)
	if err != nil {
		return nil, err
	}
	answer, err := l.proposals.Do(ctx, payload)
	return answer, unsent(err)
}

// unsent says in the log's errors that a call was never sent.
func unsent(err error) error {
	switch {
	case errors.Is(err, batcher.ErrWithdrawn), errors.Is(err, batcher.ErrFull):
		return fmt.Errorf("%w: the leader was not asked: %w", logerr.ErrBusy, err)
	case errors.Is(err, batcher.ErrClosed):
		return fmt.Errorf("%w: this peer stops", logerr.ErrNoLeader)
	}
	return err
}

// ReadIndex implements raftstore.Forwarder.
func (f *Forwarder) ReadIndex(ctx context.Context, leader raftstore.Server) (uint64, error) {
	l, err := f.link(leader.Address)
	if err != nil {
		return 0, err
	}
	index, err := l.reads.Do(ctx, struct{}{})
	err = unsent(err)
	switch {
	case err == nil:
		return index, nil
	case ctx.Err() != nil, logerr.NotAppended(err):
		return 0, err
	default: // the connection of a leader that just died, for one
		return 0, fmt.Errorf("%w: %w", logerr.ErrNoLeader, err)
	}
}

func (l *link) call(ctx context.Context, method, path string, payload []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "https://"+l.hostport+path, bytes.NewReader(payload))
	if err != nil {
		return nil, fmt.Errorf("ask the leader: %w", err)
	}
	resp, err := l.transport.RoundTrip(req)
	if err != nil && errors.Is(err, errDial) {
		return nil, fmt.Errorf("%w: the leader cannot be reached: %w", logerr.ErrNoLeader, err)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the leader: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResults))
	if err != nil {
		return nil, fmt.Errorf("read the leader's answer: %w", err)
	}
	return body, answerError(resp.StatusCode, body)
}

// Statuses by which the leader's side says that nothing was appended.
const (
	statusNotLeader = http.StatusMisdirectedRequest
	statusBusy      = http.StatusTooManyRequests
)

func answerError(status int, body []byte) error {
	switch status {
	case http.StatusOK:
		return nil
	case statusNotLeader:
		return fmt.Errorf("%w: %s", logerr.ErrNotLeader, body)
	case statusBusy:
		return fmt.Errorf("%w: %s", logerr.ErrBusy, body)
	case http.StatusForbidden:
		return fmt.Errorf("%w: %s", ErrNotMember, body)
	default:
		return fmt.Errorf("the leader answered %d: %s", status, body)
	}
}

// ErrNotMember says that the cluster does not know this peer any more.
var ErrNotMember = errors.New("this peer is not a member of the cluster")

// Served is the part of the log that answers other peers.
type Served interface {
	ServeProposal(ctx context.Context, payload []byte) ([]byte, error)
	ConfirmedIndex(ctx context.Context) (uint64, error)
	View() fsm.View
}

func reply(w http.ResponseWriter, answer []byte, err error) {
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	// A client that went away learns the outcome by asking again.
	_, _ = w.Write(answer)
}

// statusOf is the status by which the other side knows an error again.
func statusOf(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, logerr.ErrNotLeader), errors.Is(err, logerr.ErrClosed):
		return statusNotLeader
	case errors.Is(err, logerr.ErrBusy):
		return statusBusy
	default:
		return http.StatusInternalServerError
	}
}

// membersOnly lets peers through that are members now: a removed peer's
// certificate is valid until it ends.
func membersOnly(log Served, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, ok := callerAs(w, r, pki.RolePeer, "a peer's certificate is needed")
		if !ok {
			return
		}
		if _, ok := log.View().Member(id.Peer); ok {
			next.ServeHTTP(w, r)
			return
		}
		// Only the leader's present state may say so: a follower that lags has
		// not heard of a peer that just joined. The state is looked at again after
		// the proof: the peer may have been admitted meanwhile.
		index, err := log.ConfirmedIndex(r.Context())
		if err != nil {
			reply(w, nil, err)
			return
		}
		now := log.View()
		_, member := now.Member(id.Peer)
		_, removed := now.Removed(id.Peer)
		switch {
		case member:
			next.ServeHTTP(w, r)
		case now.Index() < index:
			reply(w, nil, fmt.Errorf("%w: this peer has yet to apply what is committed", logerr.ErrBusy))
		case removed: // since the request came: Access.Handler knows whether raft counts on its vote
			reply(w, nil, fmt.Errorf("%w: peer %s was removed meanwhile", logerr.ErrBusy, id.Peer))
		default:
			http.Error(w, "peer "+id.Peer+" was removed from the cluster", http.StatusForbidden)
		}
	})
}

// Certificate returns the certificate that a peer shows, proved to be its own.
func (f *Forwarder) Certificate(ctx context.Context, address string) (*x509.Certificate, error) {
	id, hostport, ok := strings.Cut(address, "@")
	if !ok {
		return nil, fmt.Errorf("server address %q is not ID@host:port", address)
	}
	conn, err := dialTLS(ctx, f.access.network, hostport, pki.ClientTLS(f.access.end, id, protocolHTTP))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0], nil // the handshake has verified it
}

// operatorsOnly lets operators through, whom the cluster's CA vouches for and
// whose certificates are not revoked, as far as this peer's own state goes.
func operatorsOnly(view func() fsm.View, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, ok := callerAs(w, r, pki.RoleOperator, "an operator's certificate is needed: 'trivet cert issue-operator'")
		if !ok {
			return
		}
		issued := pki.IssuedAt(r.TLS.PeerCertificates[0]).Unix()
		if o, known := view().Operator(id.Operator); known && issued <= o.Revoked {
			http.Error(w, "this certificate of operator "+id.Operator+" was revoked", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// callerAs returns who is at the other end if its role is as wanted, and else answers: 401
// to a caller without a certificate, 403 to one that has proved to be of another role.
func callerAs(w http.ResponseWriter, r *http.Request, role pki.Role, wanted string) (id pki.Identity, ok bool) {
	id, err := caller(r)
	switch {
	case err != nil:
		http.Error(w, wanted, http.StatusUnauthorized)
	case id.Role != role:
		http.Error(w, wanted+"; this one is of another role", http.StatusForbidden)
	}
	return id, err == nil && id.Role == role
}

// caller returns who is at the other end, as the handshake proved.
func caller(r *http.Request) (pki.Identity, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return pki.Identity{}, pki.ErrNoCertificate
	}
	return pki.IdentityOf(r.TLS.PeerCertificates[0])
}
