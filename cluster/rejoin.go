package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// PathRejoin is where hosts of former members ask to be admitted again: see
// fsm.FormerMember. Their certificates are refused in the handshake, so they show
// none and prove their key in the request.
const PathRejoin = "/peer/v1/rejoin"

// errNotFormer refuses a certificate that is good, but of no former member.
var errNotFormer = errors.New("this host may not rejoin: it was named lost, was removed, or has rejoined already")

// RejoinRequest is what a former member says of itself.
type RejoinRequest struct {
	JoinRequest        // without a token
	Cluster     string `json:"cluster_id"`
	// Incarnation is the one that it wants to live in: the request is worth
	// nothing in another.
	Incarnation uint64 `json:"incarnation"`
}

// signedRejoin is the body of a request.
type signedRejoin struct {
	Statement   []byte `json:"statement"` // a RejoinRequest as JSON
	Certificate string `json:"certificate"`
	Signature   []byte `json:"signature"` // of the statement, with the certificate's key
}

// Readmission answers hosts of former members. It has the bounds of the Admission
// that it belongs to, and shares them.
type Readmission struct{ *Admission }

// NewReadmission returns the handler of rejoins.
func NewReadmission(a *Admission) *Readmission { return &Readmission{a} }

// rejoiner is a request whose proof was verified.
type rejoiner struct {
	RejoinRequest
	former string // server ID
	key    *ecdsa.PublicKey
}

// ServeHTTP implements http.Handler for PathRejoin.
func (a *Readmission) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	source := admission.RemoteSource(r.RemoteAddr)
	var body signedRejoin
	err := a.readInto(&body, w, r)
	if err == nil { // before anything is verified or asked: each costs more than it cost the caller
		err = a.unknown.allow(source)
	}
	var from rejoiner
	if err == nil {
		from, err = a.verify(body)
	}
	if err != nil {
		a.unknown.note(source, from.Name, err)
		refuseJoin(w, joinStatus(err), err)
		return
	}
	a.answer(w, r, source, from.JoinRequest, func(ctx context.Context) (*JoinAnswer, error) { return a.readmit(ctx, from) })
}

// verify judges everything that the state of the moment decides not.
func (a *Readmission) verify(body signedRejoin) (from rejoiner, err error) {
	v := a.state.View()
	ca, err := pki.ParseCertificate(v.Secrets().CACert)
	if err != nil {
		return from, fmt.Errorf("the cluster's CA: %w", err)
	}
	proof := pki.Proof{Certificate: []byte(body.Certificate), Statement: body.Statement, Signature: body.Signature}
	id, err := proof.FormerPeer(pki.Want{Cluster: v.ClusterID(), CA: ca, Incarnation: v.Incarnation(), Now: a.wall(), Tolerance: pki.PeerTolerance})
	if err != nil {
		return from, fmt.Errorf("%w: %w", errBadJoin, err)
	}
	from.former = id.Peer
	if err := json.Unmarshal(body.Statement, &from.RejoinRequest); err != nil {
		return from, fmt.Errorf("%w: read it: %w", errBadJoin, err)
	}
	if from.Cluster != v.ClusterID() || from.Incarnation != v.Incarnation() {
		return from, fmt.Errorf("%w: it is for incarnation %d of cluster %s, this is incarnation %d of %s", errBadJoin, from.Incarnation, from.Cluster, v.Incarnation(), v.ClusterID())
	}
	if err := a.checkHost(from.JoinRequest); err != nil {
		return from, fmt.Errorf("%w: %w", errBadJoin, err)
	}
	if from.key, err = pki.ParseRequest([]byte(from.Request)); err != nil {
		return from, fmt.Errorf("%w: %w", errBadJoin, err)
	}
	return from, nil
}

// readmit gives a former member its new identity. A host that asks again with the
// same key gets the same one, until it has been used; also while its first request
// is under way, since the server ID is that of the request.
func (a *Readmission) readmit(ctx context.Context, from rejoiner) (*JoinAnswer, error) {
	v, err := a.state.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the leader for the former members: %w", err)
	}
	if _, ok := v.FormerMember(from.former); !ok {
		return nil, errNotFormer
	}
	der, err := x509.MarshalPKIXPublicKey(from.key)
	if err != nil {
		return nil, fmt.Errorf("encode the new key: %w", err)
	}
	key := sha256.Sum256(der)
	id := from.serverID(key)
	err = commit(ctx, a.do, fsm.Rejoin{Former: from.former, Key: key, Member: fsm.Member{
		ID: id, Name: from.Name, Address: from.Address, Gossip: from.Gossip, Version: from.Version, Binary: from.Binary,
	}})
	if err != nil {
		return nil, err
	}
	return a.equip(id, from.key)
}

// serverID returns the ID that a request gets: a UUID of version 5, of the former
// member, the incarnation and the hash of the new key.
func (r rejoiner) serverID(key [32]byte) string {
	name := fmt.Appendf(nil, "trivet rejoin %s %s %d %x", r.Cluster, r.former, r.Incarnation, key)
	return uuid.NewSHA1(uuid.NameSpaceOID, name).String()
}

// Rejoiner is the host of a former member that wants to become a peer again.
type Rejoiner struct {
	Joiner
	Old *pki.Credentials // of the former member
	// Key is the key of the new identity. The same request with the same key may
	// be repeated.
	Key *ecdsa.PrivateKey
}

// Incarnation asks the peer at hostport which incarnation of the cluster it lives in.
func (j Rejoiner) Incarnation(ctx context.Context, hostport string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	var found pki.Identity
	conn, err := dialTLS(ctx, hostport, j.tls(func(id pki.Identity) { found = id }))
	if err != nil {
		return 0, fmt.Errorf("ask %s: %w", hostport, err)
	}
	_ = conn.Close() // all is said
	return found.Incarnation, nil
}

func (j Rejoiner) tls(found func(pki.Identity)) *tls.Config {
	end := pki.Endpoint{Credentials: func() *pki.Credentials { return j.Old }, Now: j.Wall, Tolerance: pki.PeerTolerance}
	return pki.InquiryTLS(end, protocolHTTP, true, found)
}

// Rejoin asks the peer at hostport, which lives in this incarnation. A *JoinError
// is the cluster's refusal; after any other error it may be repeated.
func (j Rejoiner) Rejoin(ctx context.Context, hostport string, incarnation uint64) (*Joined, error) {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	body, err := j.signed(incarnation)
	if err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
		return dialTLS(ctx, hostport, j.tls(func(pki.Identity) {}))
	}
	answer, err := j.post(ctx, hostport, PathRejoin, dial, body)
	if err != nil {
		return nil, err
	}
	joined, err := answer.joined(j.Key)
	if err != nil {
		return nil, err
	}
	if !joined.Credentials.CA.Equal(j.Old.CA) {
		return nil, fmt.Errorf("the cluster's answer: %w", pki.ErrUnknownCA)
	}
	return joined, nil
}

func (j Rejoiner) signed(incarnation uint64) ([]byte, error) {
	csr, err := pki.NewRequest(j.Random, j.Key)
	if err != nil {
		return nil, err
	}
	statement, err := json.Marshal(RejoinRequest{
		JoinRequest: JoinRequest{
			Name: j.Name, Address: j.Address, Gossip: j.Gossip, Request: string(csr),
			Version: j.Version, Binary: j.Binary, WallMillis: j.Wall().UnixMilli(),
		},
		Cluster: j.Old.Identity.Cluster, Incarnation: incarnation,
	})
	if err != nil {
		return nil, fmt.Errorf("encode rejoin request: %w", err)
	}
	signature, err := pki.SignRejoin(j.Random, j.Old.Key, statement)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(signedRejoin{Statement: statement, Certificate: string(pki.EncodeCertificate(j.Old.Leaf)), Signature: signature})
	if err != nil {
		return nil, fmt.Errorf("encode rejoin request: %w", err)
	}
	return body, nil
}
