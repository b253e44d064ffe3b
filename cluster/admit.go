package cluster

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Bounds of a join.
const (
	maxJoinBody   = 64 << 10
	maxJoinAnswer = 512 << 10 // holds a whole Shared and all removed peers, encoded
	admitLimit    = 10 * time.Second
	// joinBodyLimit bounds how long a joiner may take to send its request; it is
	// read before the joiner takes a place.
	joinBodyLimit = 5 * time.Second
	// maxJoinSkew is how far a joiner's wall clock may be off that of the peer
	// it asks. It would refuse to lead, and every display would lie.
	maxJoinSkew = 5 * time.Second
)

// MaxShared bounds the settings that a joiner is given, and the users, in bytes.
const MaxShared = 64 << 10

// JoinRequest is what a joiner sends once it has verified the cluster's CA.
type JoinRequest struct {
	Token      string `json:"token"` // the secret; sent only after the CA was verified
	Name       string `json:"name"`
	Address    string `json:"address"` // host:port of the peers' port
	Gossip     string `json:"gossip"`
	Request    string `json:"request"` // PEM certificate request
	Version    int    `json:"version"` // newest log entry type known
	Binary     string `json:"binary"`
	WallMillis int64  `json:"wall_millis"`
}

// JoinAnswer makes the joiner a peer.
type JoinAnswer struct {
	ID          string   `json:"id"`
	Cluster     string   `json:"cluster_id"`
	Incarnation uint64   `json:"incarnation"`
	Certificate string   `json:"certificate"`
	CA          string   `json:"ca"`
	GossipKey   []byte   `json:"gossip_key"`
	Seeds       []string `json:"seeds"`
	Known       Known    `json:"known"`
	Shared
}

// Shared is what an operator sees to that every peer has alike and the log does
// not hold. It goes to a joiner with the answer that makes it a peer: by then
// the joiner has proved the token's secret and is given the gossip key, and with
// the log the CA's, so that nothing here is worth more. Later changes are the
// operator's, on each host.
type Shared struct {
	// Settings are keys of the configuration and their values.
	Settings map[string]string `json:"settings,omitempty"`
	// Users is the file of the API's users, names and hashes.
	Users []byte `json:"users,omitempty"`
	// NoSettings and NoUsers say why the peer gives none although it has some; "" otherwise.
	NoSettings string `json:"no_settings,omitempty"`
	NoUsers    string `json:"no_users,omitempty"`
}

// bounded keeps an answer within what a joiner reads. What is too much keeps back nothing else.
func (s Shared) bounded() Shared {
	const tooMuch = "%d bytes are too many to give a joiner, at most %d"
	size := 0
	for key, value := range s.Settings {
		size += len(key) + len(value)
	}
	if size > MaxShared {
		s.Settings, s.NoSettings = nil, fmt.Sprintf(tooMuch, size, MaxShared)
	}
	if n := len(s.Users); n > MaxShared {
		s.Users, s.NoUsers = nil, fmt.Sprintf(tooMuch, n, MaxShared)
	}
	return s
}

// Doer commits commands exactly once; *Session is one.
type Doer interface {
	Do(ctx context.Context, client string, c fsm.Command) (fsm.Result, error)
}

// commit commits a command that has no client of its own to answer.
func commit(ctx context.Context, do Doer, c fsm.Command) error {
	res, err := do.Do(ctx, "", c)
	return cmp.Or(err, res.Err())
}

// JoinLog is what Admission knows of the replicated state; *raftstore.Store is
// one.
type JoinLog interface {
	// View returns the state as this peer has applied it.
	View() fsm.View
	// Read returns a state that is at least as new as any write that was
	// acknowledged before.
	Read(ctx context.Context) (fsm.View, error)
}

// PathRejoin is where 'trivet rejoin' of v0.2.0 asks, which needs no token.
const PathRejoin = "/peer/v1/rejoin"

// RefuseRejoin answers a host that runs it.
func RefuseRejoin(w http.ResponseWriter, _ *http.Request) {
	refuseJoin(w, http.StatusGone,
		errors.New("peers of this version admit by token alone: 'trivet token create' on one of them; on this host "+
			"install its version of trivet, then 'trivet join HOST --replace --token-file FILE'"))
}

// Admission answers joiners. Any peer can: the log decides, and every peer
// holds the CA in its state.
type Admission struct {
	do      Doer
	state   JoinLog
	wall    func() time.Time
	random  io.Reader
	log     *slog.Logger
	share   func() Shared
	by      *admission.Controller
	unknown *refusals
	body    time.Duration // joinBodyLimit
}

// NewAdmission returns the handler of joins. share is asked at every join for
// what the joiner is to have as this peer does; nil gives nothing, and what it
// lacks is told and keeps no joiner out: the joiner's operator writes it then.
func NewAdmission(by *admission.Controller, do Doer, state JoinLog, wall func() time.Time, random io.Reader,
	log *slog.Logger, share func() Shared) *Admission {
	return &Admission{
		by: by, do: do, state: state, wall: wall, random: random, log: log, share: share,
		unknown: newRefusals(log), body: joinBodyLimit,
	}
}

// ServeHTTP implements http.Handler for PathJoin, PathObserve and PathSettings. The joiner has no
// certificate; its secret is its proof.
func (a *Admission) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	source := admission.RemoteSource(r.RemoteAddr)
	req, err := a.readRequest(w, r)
	if err == nil {
		err = a.refuseUnknownToken(r.Context(), req, source)
	}
	if err != nil {
		a.unknown.countRefusal(source, req.Name, err)
		refuseJoin(w, joinStatus(err), err)
		return
	}
	place, err := a.by.Admit(r.Context(), admission.Stranger, admission.Caller{Port: admission.Peers, Source: source})
	if err != nil {
		refuseJoin(w, http.StatusServiceUnavailable, fmt.Errorf("too many joins at once; try again: %w", err))
		return
	}
	defer place.Leave()
	ctx, cancel := context.WithTimeout(r.Context(), admitLimit)
	defer cancel()
	answer, err := a.admit(ctx, req, r.URL.Path)
	if err != nil {
		a.unknown.countRefusal(source, req.Name, err)
		refuseJoin(w, joinStatus(err), err)
		return
	}
	if answer.ID != "" { // else it asked for settings alone
		a.log.Info("peer joined", "peer", req.Name, "peer_id", answer.ID, "address", req.Address)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		a.log.Warn("send join answer failed; the peer may join again", "err", err)
	}
}

// readRequest reads a request within joinBodyLimit. How many are read at once the port
// bounds: strangers have few connections, of one request each.
func (a *Admission) readRequest(w http.ResponseWriter, r *http.Request) (req JoinRequest, err error) {
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.body)); err != nil {
		return JoinRequest{}, fmt.Errorf("bound the join request: %w", err)
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxJoinBody)).Decode(&req); err != nil {
		return JoinRequest{}, fmt.Errorf("%w: read it: %w", errBadJoin, err)
	}
	return req, nil
}

// refuseUnknownToken refuses a request whose token the cluster does not know before it costs
// an entry of the log. A token that this peer's state lacks may be a moment old,
// so the leader is asked, within the bounds of refusals.
func (a *Admission) refuseUnknownToken(ctx context.Context, req JoinRequest, source netip.Prefix) error {
	hash, _, err := a.check(req)
	if err != nil {
		return fmt.Errorf("%w: %w", errBadJoin, err)
	}
	if hasToken(a.state.View(), hash) {
		return nil
	}
	if err := a.unknown.allow(source); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, admitLimit)
	defer cancel()
	v, err := a.state.Read(ctx)
	if err != nil {
		return fmt.Errorf("ask the leader for the join token: %w", err)
	}
	if !hasToken(v, hash) {
		return errUnknownToken
	}
	return nil
}

// errUnknownToken has the words of the log's own refusal.
var errUnknownToken = errors.New(membership.UnknownToken)

func hasToken(v fsm.View, hash [32]byte) (found bool) {
	for _, j := range v.JoinTokens() { // at most membership.MaxJoinTokens
		found = found || pki.SameSecret(hash, j.Hash)
	}
	return found
}

// refusedJoin is the body of a refusal.
type refusedJoin struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"` // what the joiner's operator can do
}

func refuseJoin(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	refused := refusedJoin{Error: err.Error()}
	var taken *takenError
	if errors.As(err, &taken) {
		refused.Hint = taken.hint
	}
	_ = json.NewEncoder(w).Encode(refused) // the client is all there is to tell
}

func joinStatus(err error) int {
	var refused *fsm.Error
	switch {
	case errors.Is(err, errBadJoin):
		return http.StatusBadRequest
	case errors.Is(err, errUnknownToken):
		return http.StatusUnauthorized
	case errors.Is(err, errTooManyTokens):
		return http.StatusTooManyRequests
	case errors.As(err, &refused) && (refused.Code == fsm.NotFound || refused.Code == fsm.Expired):
		return http.StatusUnauthorized
	case errors.As(err, &refused) && refused.Code == fsm.Invalid:
		return http.StatusBadRequest
	case errors.As(err, &refused):
		return http.StatusConflict
	default:
		return http.StatusServiceUnavailable
	}
}

var errBadJoin = errors.New("the join request is not acceptable")

func (a *Admission) admit(ctx context.Context, req JoinRequest, path string) (*JoinAnswer, error) {
	hash, pub, err := a.check(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBadJoin, err)
	}
	id := uuid.NewString()
	use := membership.UseJoinToken{Hash: hash, Member: membership.Member{
		ID: id, Name: req.Name, Address: req.Address, Gossip: req.Gossip,
		Version: req.Version, Binary: req.Binary,
	}}
	command := fsm.Command(use)
	if path == PathSettings {
		if err := a.refusal(ctx, use, req); err != nil {
			return nil, err
		}
		return &JoinAnswer{Shared: a.shared()}, nil
	}
	if path == PathObserve {
		command = membership.Observe(use)
	}
	if err := commit(ctx, a.do, command); err != nil {
		return nil, explainTaken(err, req, a.state.View())
	}
	return a.equip(id, pub)
}

// refusal is what the log would answer a joiner, which makes no entry. The leader is asked
// even where this peer's state would admit: on this answer the joiner moves the data of its
// earlier peer away, and without a leader that may be a vote of the only majority that is left.
// A leader is waited for as where a joiner is admitted: this peer may have started a moment ago.
func (a *Admission) refusal(ctx context.Context, use membership.UseJoinToken, req JoinRequest) error {
	var v fsm.View
	err := pace.Retry{Pause: retryFirst, Most: retryMost, Budget: leaderHold, Random: a.random}.Do(ctx,
		func(ctx context.Context, _ int) (more bool, err error) {
			v, err = a.state.Read(ctx)
			return again(err), err
		})
	if err != nil {
		return fmt.Errorf("ask the leader whether the log admits the joiner: %w", err)
	}
	_, _, err = fsm.Would(v, use, a.wall().UnixMilli())
	return explainTaken(err, req, v)
}

func (a *Admission) check(req JoinRequest) (hash [32]byte, pub *ecdsa.PublicKey, err error) {
	if err := a.checkHost(req); err != nil {
		return hash, nil, err
	}
	token, err := pki.ParseJoinToken(req.Token)
	if err != nil {
		return hash, nil, err
	}
	pub, err = pki.ParseRequest([]byte(req.Request))
	return token.SecretHash(), pub, err
}

// checkHost says why a host cannot be a peer of this cluster, as it describes itself.
func (a *Admission) checkHost(req JoinRequest) error {
	if !config.ValidHostName(req.Name) {
		return fmt.Errorf("name %.80q: a host name has %s", req.Name, config.HostNameForm)
	}
	for _, addr := range []string{req.Address, req.Gossip} {
		if host, _, err := net.SplitHostPort(addr); err != nil || host == "" {
			return fmt.Errorf("address %q: it must be host:port as the other peers dial it", addr)
		}
	}
	if v := a.state.View().ClusterVersion(); req.Version < v {
		return fmt.Errorf(
			"the cluster writes log entries of version %d, this binary knows %d: install the cluster's version first", v,
			req.Version)
	}
	if off := time.Duration(req.WallMillis-a.wall().UnixMilli()) * time.Millisecond; off.Abs() > maxJoinSkew {
		return fmt.Errorf(
			"this host's clock is %v off that of the peer it asked (at most %v): set it, for instance with 'chronyc makestep'",
			off.Round(time.Millisecond), maxJoinSkew)
	}
	return nil
}

// equip issues what the new peer needs to reach the others.
func (a *Admission) equip(id string, pub *ecdsa.PublicKey) (*JoinAnswer, error) {
	view := a.state.View()
	ca, err := pki.ParseCA(view.Secrets().CACert, view.Secrets().CAKey)
	if err != nil {
		return nil, fmt.Errorf("the cluster's CA: %w", err)
	}
	cert, err := ca.Sign(a.random, a.wall(), pki.Order{
		Identity: pki.PeerIdentity(view.ClusterID(), id, view.Incarnation()), PublicKey: pub, TTL: pki.PeerTTL,
	})
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	answer := &JoinAnswer{
		ID: id, Cluster: view.ClusterID(), Incarnation: view.Incarnation(),
		Certificate: string(cert), CA: string(view.Secrets().CACert), GossipKey: view.Secrets().GossipKey,
	}
	for _, m := range view.Members() {
		if m.ID != id {
			answer.Seeds = append(answer.Seeds, m.Gossip)
			answer.Known.Members = append(answer.Known.Members, ServerAddress(m.ID, m.Address))
		}
	}
	for _, r := range view.RemovedPeers() {
		answer.Known.Removed = append(answer.Known.Removed, r.ID)
	}
	answer.Shared = a.shared()
	return answer, nil
}

func (a *Admission) shared() Shared {
	if a.share == nil {
		return Shared{}
	}
	s := a.share().bounded()
	for _, why := range []string{s.NoSettings, s.NoUsers} {
		if why != "" {
			a.log.Warn("share settings or users with the joining peer failed; write them there", "err", why)
		}
	}
	return s
}
