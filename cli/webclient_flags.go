package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/client"
)

const (
	defaultServer  = "http://127.0.0.1:5050"
	maxCredentials = 4 << 10 // bytes of the file
	maxCACert      = 1 << 20 // bytes of the file
	readableByAll  = 0o007   // mode bits
	callsAtOnce    = 16      // questions under way together; more of them wait
)

// webFlags are the flags that say which servers to ask, and as whom.
type webFlags struct {
	servers             []string
	credentials, cacert string // files
	token               string // of Keystone
}

func (p *program) webFlags(flags *pflag.FlagSet) *webFlags {
	f := &webFlags{}
	servers := strings.Split(p.variable("TRIVET_SERVER", defaultServer), ",")
	flags.StringSliceVar(&f.servers, "server", servers, "URL of a peer's API; of several, separated by commas, each is asked until one answers; or $TRIVET_SERVER")
	flags.StringVar(&f.credentials, "credentials", p.variable("TRIVET_CREDENTIALS", ""), "file with one line, user:password; or $TRIVET_CREDENTIALS")
	flags.StringVar(&f.token, "os-token", "", "token of Keystone, for peers that ask for one; every user of this host sees it in ps: prefer $OS_TOKEN, or the user of $OS_AUTH_URL, $OS_USERNAME, …")
	flags.StringVar(&f.cacert, "cacert", p.variable("TRIVET_CACERT", ""), "file with the CA certificates to trust, instead of the system's; or $TRIVET_CACERT")
	return f
}

// web returns a client as the flags say.
func (p *program) web(f *webFlags) (*client.Client, error) {
	o, err := p.webOptions(f)
	if err != nil {
		return nil, err
	}
	c, err := client.New(o)
	return c, serverError(err)
}

// serverError is about the options of a client.
func serverError(err error) error {
	if err == nil {
		return nil
	}
	return fail(ExitUsage, "write URLs, separated by commas, as http://HOST:5050; a password goes in the file of --credentials", "--server: %w", err)
}

// webOptions are what the flags say of servers and credentials.
func (p *program) webOptions(f *webFlags) (o client.Options, err error) {
	o = client.Options{Servers: f.servers, Random: p.random, Transport: p.transport}
	if f.credentials != "" {
		if o.User, o.Password, err = p.readCredentials(f.credentials); err != nil {
			return o, err
		}
	}
	if o.TLS, err = trust(f.cacert); err != nil {
		return o, err
	}
	o.Token, err = p.tokenSource(f)
	return o, err
}

func staleFlag(c *cobra.Command, stale *bool) {
	c.Flags().BoolVar(stale, "stale", false, "answer from one peer's own state, also without a quorum")
}

// webFor returns a client whose reads are stale if that is asked for.
func (p *program) webFor(f *webFlags, stale bool) (*client.Client, error) {
	web, err := p.web(f)
	if err != nil || !stale {
		return web, err
	}
	return web.Stale(), nil
}

// readCredentials reads user and password from a file of one line.
func (p *program) readCredentials(path string) (user, password string, err error) {
	text, mode, err := readBounded(path, maxCredentials)
	if err != nil {
		return "", "", usage("--credentials: %w", err)
	}
	if mode.IsRegular() && mode.Perm()&readableByAll != 0 {
		p.warn("%s: everybody on this host can read it; 'chmod 600 %s' keeps the password yours", path, path)
	}
	line, more, _ := strings.Cut(string(text), "\n")
	user, password, ok := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
	if !ok || user == "" || strings.TrimSpace(more) != "" {
		return "", "", usage("--credentials %s: it holds one line, user:password, and no other", path)
	}
	return user, password, nil
}

// readBounded reads a file that has no business being longer than limit bytes.
func readBounded(path string, limit int64) ([]byte, os.FileMode, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s: longer than %d bytes", path, limit)
	}
	return text, info.Mode(), err
}

// trust returns whom to trust: those in a file of certificates, or nil for the
// system's.
func trust(cacert string) (*tls.Config, error) {
	if cacert == "" {
		return nil, nil
	}
	pem, _, err := readBounded(cacert, maxCACert)
	if err != nil {
		return nil, usage("--cacert: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bytes.TrimSpace(pem)) {
		return nil, usage("--cacert %s: it holds no certificate in PEM", cacert)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
