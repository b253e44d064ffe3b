package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"

	"github.com/trivet-ha/trivet/cluster/pki"
)

// joinLimit bounds the whole join.
const joinLimit = 20 * time.Second

// JoinError is a refusal by the cluster.
type JoinError struct {
	Status  int
	Message string
	Hint    string // what to do on this host; "" if the peer did not say
}

// Error implements error.
func (e *JoinError) Error() string { return e.Message }

// Joiner is a host that wants to become a peer.
type Joiner struct {
	Name    string
	Address string // host:port of its peers' port, as the others dial it
	Gossip  string
	API     string
	Version int
	Binary  string
	// Observer makes it one that counts in no majority.
	Observer bool
	Wall     func() time.Time
	Random   io.Reader
}

// Joined is what a joiner has afterwards: all it needs to start.
type Joined struct {
	Answer      JoinAnswer
	Credentials *pki.Credentials
}

// Join asks the peer at hostport. It verifies the cluster's CA against the
// token before anything secret leaves this host. A *JoinError is the cluster's
// refusal; after any other error the join may be repeated, a member that never
// showed itself gives way to its successor of the same name.
func (j Joiner) Join(ctx context.Context, hostport string, token pki.JoinToken) (*Joined, error) {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	key, err := pki.NewKey(j.Random)
	if err != nil {
		return nil, err
	}
	body, err := j.request(key, token)
	if err != nil {
		return nil, err
	}
	path := PathJoin
	if j.Observer {
		path = PathObserve
	}
	dial := func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
		return dialTLS(ctx, hostport, pki.JoinerTLS(token, j.Wall, protocolHTTP, nil))
	}
	joined, err := j.post(ctx, hostport, path, dial, body, key)
	if err != nil {
		return nil, err
	}
	if pki.HashCA(joined.Credentials.CA) != token.CAHash {
		return nil, fmt.Errorf("the cluster's answer: %w", pki.ErrCAHash)
	}
	return joined, nil
}

func (j Joiner) request(key *ecdsa.PrivateKey, token pki.JoinToken) ([]byte, error) {
	csr, err := pki.NewRequest(j.Random, key)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(JoinRequest{
		Token: token.String(), Name: j.Name, Address: j.Address, Gossip: j.Gossip, API: j.API,
		Request: string(csr), Version: j.Version, Binary: j.Binary, WallMillis: j.Wall().UnixMilli(),
	})
	if err != nil {
		return nil, fmt.Errorf("encode join request: %w", err)
	}
	return body, nil
}

// dialer makes the connection of a request; it verifies who answers.
type dialer = func(ctx context.Context, network, address string, config *tls.Config) (net.Conn, error)

// post sends a request for an identity with this key.
func (j Joiner) post(ctx context.Context, hostport, path string, dial dialer, body []byte, key *ecdsa.PrivateKey) (*Joined, error) {
	t := &http2.Transport{DialTLSContext: dial}
	defer t.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+hostport+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("join %s: %w", hostport, err)
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("join %s: %w", hostport, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxJoinAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the cluster's answer: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		var answer JoinAnswer
		if err := json.Unmarshal(text, &answer); err != nil {
			return nil, fmt.Errorf("read the cluster's answer: %w", err)
		}
		cred, err := pki.NewCredentials([]byte(answer.Certificate), []byte(answer.CA), key)
		if err != nil {
			return nil, fmt.Errorf("the cluster's answer: %w", err)
		}
		return &Joined{Answer: answer, Credentials: cred}, nil
	}
	if j.Observer && resp.StatusCode == http.StatusNotFound {
		return nil, &JoinError{Status: http.StatusConflict, Message: "its binary knows no observers: upgrade trivet on every peer first"}
	}
	var refused refusedJoin
	if err := json.Unmarshal(text, &refused); err != nil {
		return nil, errors.Join(fmt.Errorf("%s answered %s", hostport, resp.Status), err)
	}
	return nil, &JoinError{Status: resp.StatusCode, Message: refused.Error, Hint: refused.Hint}
}
