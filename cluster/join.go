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

// Certain says that the cluster did not admit the joiner. A peer that heard of no outcome
// cannot tell.
func (e *JoinError) Certain() bool { return e.Status < http.StatusInternalServerError }

// Joiner is a host that wants to become a peer.
type Joiner struct {
	Name    string
	Address string // host:port of its peers' port, as the others dial it
	Gossip  string
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
	path := PathJoin
	if j.Observer {
		path = PathObserve
	}
	answer, key, err := j.ask(ctx, hostport, path, token)
	if err != nil {
		return nil, err
	}
	cred, err := pki.NewCredentials([]byte(answer.Certificate), []byte(answer.CA), key)
	if err == nil && pki.HashCA(cred.CA) != token.CAHash {
		err = pki.ErrCAHash
	}
	if err != nil {
		return nil, fmt.Errorf("the cluster's answer: %w", err)
	}
	return &Joined{Answer: answer, Credentials: cred}, nil
}

// Settings asks the peer at hostport what it would give this host, which becomes no member by
// that. Like Join it verifies the CA first. known is false for a peer that does not answer
// the question, because its binary is older.
func (j Joiner) Settings(ctx context.Context, hostport string, token pki.JoinToken) (s Shared, known bool, err error) {
	answer, _, err := j.ask(ctx, hostport, PathSettings, token)
	var refused *JoinError
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return s, false, nil
	}
	return answer.Shared, err == nil, err
}

// ask sends a request with a new key.
func (j Joiner) ask(ctx context.Context, hostport, path string, token pki.JoinToken) (answer JoinAnswer,
	key *ecdsa.PrivateKey, err error) {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	if key, err = pki.NewKey(j.Random); err != nil {
		return answer, nil, err
	}
	body, err := j.request(key, token)
	if err != nil {
		return answer, nil, err
	}
	answer, err = j.post(ctx, hostport, path, pki.JoinerTLS(token, j.Wall, protocolHTTP), body)
	return answer, key, err
}

func (j Joiner) request(key *ecdsa.PrivateKey, token pki.JoinToken) ([]byte, error) {
	csr, err := pki.NewRequest(j.Random, key)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(JoinRequest{
		Token: token.String(), Name: j.Name, Address: j.Address, Gossip: j.Gossip,
		Request: string(csr), Version: j.Version, Binary: j.Binary, WallMillis: j.Wall().UnixMilli(),
	})
	if err != nil {
		return nil, fmt.Errorf("encode join request: %w", err)
	}
	return body, nil
}

// post sends a request and reads the answer. The configuration verifies who answers.
func (j Joiner) post(ctx context.Context, hostport, path string, verified *tls.Config, body []byte) (answer JoinAnswer,
	err error) {
	t := &http2.Transport{DialTLSContext: func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
		return dialTLS(ctx, HostNetwork{}, hostport, verified)
	}}
	defer t.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+hostport+path, bytes.NewReader(body))
	if err != nil {
		return answer, fmt.Errorf("join %s: %w", hostport, err)
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return answer, fmt.Errorf("join %s: %w", hostport, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxJoinAnswer))
	if err != nil {
		return answer, fmt.Errorf("read the cluster's answer: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, &answer); err != nil {
			return answer, fmt.Errorf("read the cluster's answer: %w", err)
		}
		return answer, nil
	}
	if j.Observer && resp.StatusCode == http.StatusNotFound {
		return answer, &JoinError{Status: http.StatusConflict,
			Message: "its binary knows no observers: upgrade trivet on every peer first"}
	}
	var refused refusedJoin
	if err := json.Unmarshal(text, &refused); err != nil && resp.StatusCode == http.StatusNotFound {
		refused.Error = fmt.Sprintf("%s answered %s", hostport, resp.Status)
	} else if err != nil {
		return answer, errors.Join(fmt.Errorf("%s answered %s", hostport, resp.Status), err)
	}
	return answer, &JoinError{Status: resp.StatusCode, Message: refused.Error, Hint: refused.Hint}
}
