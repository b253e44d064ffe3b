package term

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/internal/bounds"
)

// remoteDial bounds connecting to a peer, and the handshake.
const remoteDial = 5 * time.Second

// PeersPort is the port of a peer where none is named.
const PeersPort = "7350"

// ReadableByAll are the mode bits of a file that everybody on the host can read.
const ReadableByAll = 0o007

// OnPort is the peer at HOST or HOST:PORT, for an operator whose certificate is in a
// file. What is wrong with the certificate is told by the first call.
func OnPort(hostport, certificate string, wall func() time.Time) Peer {
	if _, _, err := net.SplitHostPort(hostport); err != nil {
		hostport = net.JoinHostPort(hostport, PeersPort)
	}
	dial := func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
		cred, err := readOperator(certificate)
		if err != nil {
			return nil, err
		}
		end := pki.Endpoint{Credentials: func() *pki.Credentials { return cred }, Now: wall}
		ctx, cancel := context.WithTimeout(ctx, remoteDial)
		defer cancel()
		d := tls.Dialer{Config: pki.ClientTLS(end, "", http2.NextProtoTLS)}
		return d.DialContext(ctx, "tcp", hostport)
	}
	w := way{where: hostport, base: "https://" + hostport,
		http: &http.Client{Transport: &http2.Transport{DialTLSContext: dial}}}
	return Peer{AnswerLimit, func() way { return w }}
}

// readOperator reads certificate, CA and key. A reader of the file controls the
// cluster, so one that everybody can read is refused.
func readOperator(path string) (*pki.Credentials, error) {
	if path == "" {
		return nil, Fail(ExitUsage, "on a peer's host: 'trivet cert issue-operator NAME > FILE'; then --operator-cert FILE",
			"--peer needs an operator's certificate")
	}
	const most = 64 << 10
	text, info, err := bounds.ReadFile(path, most)
	if err != nil {
		return nil, Usage("--operator-cert: %w", err)
	}
	if info.Mode().Perm()&ReadableByAll != 0 {
		return nil, Fail(ExitUsage, "chmod 600 "+path, "--operator-cert %s: everybody on this host can read the key in it",
			path)
	}
	cred, err := pki.ParseCredentials(text)
	if err != nil {
		return nil, Usage("--operator-cert %s: %w", path, err)
	}
	if cred.Identity.Role != pki.RoleOperator {
		return nil, Usage("--operator-cert %s: it is the certificate of %v, not an operator's", path, cred.Identity)
	}
	return cred, nil
}

// unreachableRemote is what a call through the peers' port can end with.
func (w way) unreachableRemote(err error) error {
	var f *Failure
	var validity *pki.ValidityError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &validity):
		return Fail(ExitNotAuthorised,
			"is this host's clock right? A new one, on a peer's host: 'trivet cert issue-operator NAME'", "%s: %w", w.where, err)
	case errors.Is(err, pki.ErrUnknownCA):
		return Fail(ExitNotAuthorised, "is it the certificate of that cluster?", "%s: %w", w.where, err)
	case errors.Is(err, context.DeadlineExceeded):
		return Fail(ExitOutcomeUnknown, "look before you repeat it: 'trivet status'", "%s did not answer in time", w.where)
	default:
		return Fail(ExitFailed, fmt.Sprintf(
			"is %s a peer's port, and does no firewall stand in between? Any other peer will do as well", w.where),
			"ask the peer: %w", err)
	}
}
