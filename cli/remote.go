package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/net/http2"

	"github.com/trivet-ha/trivet/cluster/pki"
)

// remoteDial bounds connecting to a peer, and the handshake.
const remoteDial = 5 * time.Second

// remoteFlags are the flags that say to control another host's peer.
type remoteFlags struct {
	peer, cert string
}

func (p *program) remoteFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.remote.peer, "peer", p.variable("TRIVET_PEER", ""),
		"control the peer at this HOST or HOST:PORT (its peers' port, 7350) instead of the one on this host; or $TRIVET_PEER")
	flags.StringVar(&p.remote.cert, "operator-cert", p.variable("TRIVET_OPERATOR_CERT", ""),
		"file of 'trivet cert issue-operator', for --peer; or $TRIVET_OPERATOR_CERT")
}

// remotePeer returns a client of the peer that --peer names. What is wrong with
// the certificate is told by the first call.
func (p *program) remotePeer() *control {
	hostport := p.remote.peer
	if _, _, err := net.SplitHostPort(hostport); err != nil {
		hostport = net.JoinHostPort(hostport, peersPort)
	}
	dial := func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
		cred, err := readOperator(p.remote.cert)
		if err != nil {
			return nil, err
		}
		end := pki.Endpoint{Credentials: func() *pki.Credentials { return cred }, Now: p.wall}
		ctx, cancel := context.WithTimeout(ctx, remoteDial)
		defer cancel()
		d := tls.Dialer{Config: pki.ClientTLS(end, "", http2.NextProtoTLS)}
		return d.DialContext(ctx, "tcp", hostport)
	}
	return &control{where: hostport, base: "https://" + hostport, http: &http.Client{Transport: &http2.Transport{DialTLSContext: dial}}, limit: answerLimit}
}

// readOperator reads certificate, CA and key. Whoever can read the file has the
// cluster, so one that everybody can read is refused.
func readOperator(path string) (*pki.Credentials, error) {
	if path == "" {
		return nil, fail(ExitUsage, "on a peer's host: 'trivet cert issue-operator NAME > FILE'; then --operator-cert FILE", "--peer needs an operator's certificate")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("--operator-cert: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode().Perm()&readableByAll != 0 {
		return nil, errors.Join(fail(ExitUsage, "chmod 600 "+path, "--operator-cert %s: everybody on this host can read the key in it", path), err)
	}
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, usage("--operator-cert: %w", err)
	}
	cred, err := pki.ParseCredentials(text)
	if err != nil {
		return nil, usage("--operator-cert %s: %w", path, err)
	}
	if cred.Identity.Role != pki.RoleOperator {
		return nil, usage("--operator-cert %s: it is the certificate of %v, not an operator's", path, cred.Identity)
	}
	return cred, nil
}

// notAdmitted says why a peer's port let no operator in.
func notAdmitted(resp *http.Response) error {
	const most = 1 << 10
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil || len(text) == 0 {
		text = []byte(resp.Status)
	}
	return fail(ExitNotAuthorised, "on a peer's host: 'trivet cert issue-operator NAME'", "the peer refuses: %s", printable(string(trimLine(text))))
}

func trimLine(text []byte) []byte {
	for len(text) > 0 && text[len(text)-1] == '\n' {
		text = text[:len(text)-1]
	}
	return text
}

// unreachableRemote is what a call through the peers' port can end with.
func (c *control) unreachableRemote(err error) error {
	var f *Failure
	var validity *pki.ValidityError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &validity):
		return fail(ExitNotAuthorised, "is this host's clock right? A new one, on a peer's host: 'trivet cert issue-operator NAME'", "%s: %w", c.where, err)
	case errors.Is(err, pki.ErrUnknownCA):
		return fail(ExitNotAuthorised, "is it the certificate of that cluster?", "%s: %w", c.where, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fail(ExitOutcomeUnknown, "look before you repeat it: 'trivet status'", "%s did not answer in time", c.where)
	default:
		return fail(ExitFailed, fmt.Sprintf("is %s a peer's port, and does no firewall stand in between? Any other peer will do as well", c.where), "ask the peer: %w", err)
	}
}
