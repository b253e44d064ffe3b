package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/net/http2"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/pki"
	"github.com/trivet-ha/trivet/raftstore"
)

// Paths between peers.
const (
	pathPropose   = "/peer/v1/propose"
	pathReadIndex = "/peer/v1/read-index"
)

// PathJoin is where joiners, who have no certificate yet, ask to be admitted.
const PathJoin = "/peer/v1/join"

// maxResult bounds the answer to a forwarded command.
const maxResult = 4 << 20

// maxClients bounds the connections kept to other peers; a cluster has few.
const maxClients = 16

// Forwarder carries a follower's questions to the leader over the peers' port.
// It implements raftstore.Forwarder.
type Forwarder struct {
	end pki.Endpoint

	mu      sync.Mutex
	clients map[string]*http2.Transport // by server address
}

// NewForwarder calls other peers with the credentials of end.
func NewForwarder(end pki.Endpoint) *Forwarder {
	return &Forwarder{end: end, clients: make(map[string]*http2.Transport)}
}

// errDial marks a call that never left: nothing was appended anywhere.
var errDial = errors.New("dial")

func (f *Forwarder) client(address string) (*http2.Transport, string, error) {
	id, hostport, ok := strings.Cut(address, "@")
	if !ok {
		return nil, "", fmt.Errorf("%w: server address %q is not ID@host:port", errDial, address)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if t, ok := f.clients[address]; ok {
		return t, hostport, nil
	}
	if len(f.clients) >= maxClients {
		f.forget()
	}
	t := &http2.Transport{
		ReadIdleTimeout: keepAlive,
		DialTLSContext: func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
			conn, err := dialTLS(ctx, hostport, pki.ClientTLS(f.end, id, protocolHTTP))
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errDial, err)
			}
			return conn, nil
		},
	}
	f.clients[address] = t
	return t, hostport, nil
}

// forget drops all idle connections; the caller holds the lock.
func (f *Forwarder) forget() {
	for _, t := range f.clients {
		t.CloseIdleConnections()
	}
	clear(f.clients)
}

// Close ends the idle connections.
func (f *Forwarder) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget()
}

// Propose implements raftstore.Forwarder.
func (f *Forwarder) Propose(ctx context.Context, leader raftstore.Server, payload []byte) ([]byte, error) {
	return f.call(ctx, leader, http.MethodPost, pathPropose, payload)
}

// ReadIndex implements raftstore.Forwarder.
func (f *Forwarder) ReadIndex(ctx context.Context, leader raftstore.Server) (uint64, error) {
	answer, err := f.call(ctx, leader, http.MethodGet, pathReadIndex, nil)
	switch {
	case err == nil && len(answer) == 8:
		return binary.BigEndian.Uint64(answer), nil
	case err == nil:
		return 0, fmt.Errorf("%w: its read index has %d bytes instead of 8", raftstore.ErrNoLeader, len(answer))
	case ctx.Err() != nil, errors.Is(err, raftstore.ErrNotLeader), errors.Is(err, raftstore.ErrNoLeader), errors.Is(err, raftstore.ErrBusy):
		return 0, err
	default: // the connection of a leader that just died, for one
		return 0, fmt.Errorf("%w: %w", raftstore.ErrNoLeader, err)
	}
}

func (f *Forwarder) call(ctx context.Context, leader raftstore.Server, method, path string, payload []byte) ([]byte, error) {
	t, hostport, err := f.client(leader.Address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", raftstore.ErrNoLeader, err)
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+hostport+path, bytes.NewReader(payload))
	if err != nil {
		return nil, fmt.Errorf("ask the leader: %w", err)
	}
	resp, err := t.RoundTrip(req)
	if err != nil && errors.Is(err, errDial) {
		return nil, fmt.Errorf("%w: the leader cannot be reached: %w", raftstore.ErrNoLeader, err)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the leader: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResult))
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
		return fmt.Errorf("%w: %s", raftstore.ErrNotLeader, body)
	case statusBusy:
		return fmt.Errorf("%w: %s", raftstore.ErrBusy, body)
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

// PeerHandler answers what Forwarder of other peers asks.
func PeerHandler(log Served) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathPropose, func(w http.ResponseWriter, r *http.Request) {
		payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, fsm.MaxEntry))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		answer, err := log.ServeProposal(r.Context(), payload)
		reply(w, answer, err)
	})
	mux.HandleFunc("GET "+pathReadIndex, func(w http.ResponseWriter, r *http.Request) {
		index, err := log.ConfirmedIndex(r.Context())
		reply(w, binary.BigEndian.AppendUint64(nil, index), err)
	})
	return membersOnly(log, mux)
}

func reply(w http.ResponseWriter, answer []byte, err error) {
	switch {
	case err == nil:
		// A client that went away learns the outcome by asking again.
		_, _ = w.Write(answer)
	case errors.Is(err, raftstore.ErrNotLeader), errors.Is(err, raftstore.ErrClosed):
		http.Error(w, err.Error(), statusNotLeader)
	case errors.Is(err, raftstore.ErrBusy):
		http.Error(w, err.Error(), statusBusy)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// membersOnly lets peers through that are members now: a removed peer's
// certificate is valid until it ends.
func membersOnly(log Served, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := caller(r)
		if err != nil || id.Role != pki.RolePeer {
			http.Error(w, "a peer's certificate is needed", http.StatusUnauthorized)
			return
		}
		if _, ok := log.View().Member(id.Peer); ok {
			next.ServeHTTP(w, r)
			return
		}
		// Only the leader's present state may say so: a follower that lags has
		// not heard of a peer that just joined.
		if _, err := log.ConfirmedIndex(r.Context()); err != nil {
			reply(w, nil, err)
			return
		}
		http.Error(w, "peer "+id.Peer+" was removed from the cluster", http.StatusForbidden)
	})
}

// OperatorsOnly lets operators through, whom the cluster's CA vouches for.
func OperatorsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := caller(r)
		if err != nil || id.Role != pki.RoleOperator {
			http.Error(w, "an operator's certificate is needed: 'trivet cert issue-operator'", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// caller returns who is at the other end, as the handshake proved.
func caller(r *http.Request) (pki.Identity, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return pki.Identity{}, pki.ErrNoCertificate
	}
	return pki.IdentityOf(r.TLS.PeerCertificates[0])
}
