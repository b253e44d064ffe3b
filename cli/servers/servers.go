// Package servers is what the command line says of the API: which peers to ask, and as
// whom.
package servers

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/internal/bounds"
)

const (
	maxCredentials = 4 << 10 // bytes of the file
	maxCACert      = 1 << 20 // bytes of the file
)

// Flags are those that say which servers to ask, and as whom.
type Flags struct {
	term                *term.Terminal
	local               func(login bool) (string, error) // see options.Set.APIServer
	Servers             []string                         // none: the API on this host
	credentials, cacert string                           // files
	token               string                           // of Keystone
}

// New adds the flags to a set. local says where the API is on this host, for a command without --server; it
// is asked when the flags are parsed.
func New(t *term.Terminal, local func(login bool) (string, error), flags *pflag.FlagSet) *Flags {
	f := &Flags{term: t, local: local}
	var servers []string
	if text := t.Variable("TRIVET_SERVER", ""); text != "" {
		servers = strings.Split(text, ",")
	}
	flags.StringSliceVar(&f.Servers, "server", servers,
		"URL of a peer's API; of several, separated by commas, each is asked until one answers; or $TRIVET_SERVER (default the API on this host, by api.listen)")
	flags.StringVar(&f.credentials, "credentials", t.Variable("TRIVET_CREDENTIALS", ""),
		"file with one line, user:password; or $TRIVET_CREDENTIALS")
	flags.StringVar(&f.token, "os-token", "",
		"token of Keystone, for peers that ask for one; every user of this host sees it in ps: prefer $OS_TOKEN, or the user of $OS_AUTH_URL, $OS_USERNAME, …")
	flags.StringVar(&f.cacert, "cacert", t.Variable("TRIVET_CACERT", ""),
		"file with the CA certificates to trust, instead of the system's; or $TRIVET_CACERT")
	return f
}

// Login reports whether the command was told as whom to ask.
func (f *Flags) Login() bool {
	return f.credentials != "" || f.token != "" || f.term.Variable("OS_TOKEN", "") != "" ||
		f.term.Variable("OS_AUTH_URL", "") != ""
}

// Client returns a client as the flags say.
func (f *Flags) Client() (*client.Client, error) {
	o, err := f.Options()
	if err != nil {
		return nil, err
	}
	c, err := client.New(o)
	return c, Error(err)
}

// Error is about the options of a client.
func Error(err error) error {
	if err == nil {
		return nil
	}
	return term.Fail(term.ExitUsage,
		"write URLs, separated by commas, as http://HOST:5050; a password goes in the file of --credentials", "--server: %w",
		err)
}

// Options are what the flags say of servers and credentials.
func (f *Flags) Options() (o client.Options, err error) {
	if len(f.Servers) == 0 {
		here, err := f.local(f.Login())
		if err != nil {
			return o, err
		}
		f.Servers = []string{here}
	}
	o = client.Options{Servers: f.Servers, Random: f.term.Random, Transport: f.term.Transport}
	if socket, ok := strings.CutPrefix(f.Servers[0], "unix:"); ok {
		o.Servers, o.Transport = []string{"http://trivet" + api.SocketPath}, term.SocketTransport(socket)
	}
	if f.credentials != "" {
		if o.User, o.Password, err = f.readCredentials(f.credentials); err != nil {
			return o, err
		}
	}
	if o.TLS, err = trust(f.cacert); err != nil {
		return o, err
	}
	o.Token, err = f.tokenSource()
	return o, err
}

// StaleFlag adds --stale of a command that asks the API.
func StaleFlag(c *cobra.Command, stale *bool) {
	c.Flags().BoolVar(stale, "stale", false, "answer from one peer's own state, also without a quorum")
}

// Reader returns a client whose reads are stale if that is asked for.
func (f *Flags) Reader(stale bool) (*client.Client, error) {
	web, err := f.Client()
	if err != nil || !stale {
		return web, err
	}
	return web.Stale(), nil
}

// readCredentials reads user and password from a file of one line.
func (f *Flags) readCredentials(path string) (user, password string, err error) {
	text, info, err := bounds.ReadFile(path, maxCredentials)
	if err != nil {
		return "", "", term.Usage("--credentials: %w", err)
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&term.ReadableByAll != 0 {
		f.term.Warn("%s: everybody on this host can read it; 'chmod 600 %s' keeps the password yours", path, path)
	}
	line, more, _ := strings.Cut(string(text), "\n")
	user, password, ok := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
	if !ok || user == "" || strings.TrimSpace(more) != "" {
		return "", "", term.Usage("--credentials %s: it holds one line, user:password, and no other", path)
	}
	return user, password, nil
}

// trust returns whom to trust: those in a file of certificates, or nil for the
// system's.
func trust(cacert string) (*tls.Config, error) {
	if cacert == "" {
		return nil, nil
	}
	pem, _, err := bounds.ReadFile(cacert, maxCACert)
	if err != nil {
		return nil, term.Usage("--cacert: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bytes.TrimSpace(pem)) {
		return nil, term.Usage("--cacert %s: it holds no certificate in PEM", cacert)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}
