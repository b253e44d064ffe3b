package servicecreds

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/internal/bounds"
)

const (
	lookAtFiles = time.Second      // at most this often
	dialLimit   = 10 * time.Second // of Dial, handshake included
)

// Files name what TLS to a service needs. The zero Files trust the CAs of the
// system and show nothing.
type Files struct {
	CA        string // certificates (PEM) that are trusted besides those of the system
	Cert, Key string // shown to the service (PEM); both or neither
	Insecure  bool   // the service's certificate is not checked
	Section   string // of the options that named them, for messages
}

// TLS is how this host speaks TLS to a service. Connections that are there stay
// when a file changes; it counts for the next one. It may be used concurrently.
type TLS struct {
	files  Files
	logger *slog.Logger
	stat   func(path string) (os.FileInfo, error)

	looks bounds.Calls // at the files

	mu     sync.Mutex
	conf   *tls.Config   // never changed, only replaced
	next   time.Time     // not before this are they looked at again
	seen   []os.FileInfo // when conf was read; only replaced
	broken bool          // they did not hold together at the last look, and that was logged
}

// OpenTLS reads the files. The error names the option and the file.
func OpenTLS(f Files, logger *slog.Logger) (*TLS, error) {
	t := &TLS{files: f, logger: logger, stat: os.Stat}
	conf, seen, err := t.readFiles()
	if err != nil {
		return nil, err
	}
	t.conf, t.seen, t.next = conf, seen, time.Now().Add(lookAtFiles)
	return t, nil
}

// Config is for one connection made now. It is shared: a caller that changes it
// clones it first. A file system that hangs delays one connection now and then, for bounds.FileLimit,
// and what was read before stays; the peer's look at all its files tells of that.
func (t *TLS) Config() *tls.Config {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); !now.Before(t.next) {
		t.next = now.Add(lookAtFiles)
		seen := t.seen
		if t.broken {
			seen = make([]os.FileInfo, len(seen)) // of no file
		}
		t.mu.Unlock()
		_ = t.looks.Take(bounds.FileLimit, func() func() { return t.reread(seen) })
		t.mu.Lock()
	}
	return t.conf
}

// Dial makes one connection, handshake included, as the files are now. It takes ten
// seconds at most, also if ctx grants more.
func (t *TLS) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&tls.Dialer{NetDialer: &net.Dialer{Timeout: dialLimit}, Config: t.Config()}).DialContext(ctx, network, address)
}

// reread reads the files if one of them is another than was seen.
func (t *TLS) reread(seen []os.FileInfo) (take func()) {
	if t.unchanged(seen) {
		return nil
	}
	conf, now, err := t.readFiles()
	return func() { t.take(conf, now, err) }
}

// take puts in force what was read. A failure is logged once, until the files hold together again.
func (t *TLS) take(conf *tls.Config, seen []os.FileInfo, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.conf, t.seen, t.broken = conf, seen, false
		t.logger.Info("service certificates reloaded", "section", t.files.Section)
	case !t.broken:
		t.broken = true
		t.logger.Error("reload service certificates failed, keeping the current ones", "section", t.files.Section, "err", err)
	}
}

// names are the files that are named, in a fixed order.
func (t *TLS) names() []string {
	return slices.DeleteFunc([]string{t.files.CA, t.files.Cert, t.files.Key}, func(name string) bool { return name == "" })
}

func (t *TLS) unchanged(seen []os.FileInfo) bool {
	for n, name := range t.names() {
		info, err := t.stat(name)
		if err != nil || !sameFile(seen[n], info) {
			return false
		}
	}
	return true
}

// readFiles reads the files, if all of them will do. What they were is noted with what
// they hold, so that a change under way shows at the next look.
func (t *TLS) readFiles() (conf *tls.Config, seen []os.FileInfo, err error) {
	text := make(map[string][]byte)
	var errs []error
	for _, name := range t.names() {
		content, info, err := bounds.ReadFile(name, MaxPEM)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.option(name), err))
		}
		seen, text[name] = append(seen, info), content
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	conf, err = t.compose(text)
	return conf, seen, err
}

// option is the one that named a file.
func (t *TLS) option(name string) string {
	switch name {
	case t.files.CA:
		return t.files.Section + ".ca_file"
	case t.files.Cert:
		return t.files.Section + ".cert_file"
	}
	return t.files.Section + ".key_file"
}

// compose makes a configuration of what the files hold. HTTP/1.1 alone is
// spoken: who asks for one thing at a time needs no more.
func (t *TLS) compose(text map[string][]byte) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: t.files.Insecure}
	if t.files.CA != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("certificates of the system: %w", err)
		}
		if !pool.AppendCertsFromPEM(text[t.files.CA]) {
			return nil, fmt.Errorf("%s: %s holds no certificate; write the file with the CA's certificate in PEM",
				t.option(t.files.CA), t.files.CA)
		}
		conf.RootCAs = pool
	}
	if t.files.Cert != "" {
		pair, err := tls.X509KeyPair(text[t.files.Cert], text[t.files.Key])
		if err != nil {
			return nil, fmt.Errorf("%s and key_file: %s and %s: %w", t.option(t.files.Cert), t.files.Cert, t.files.Key, err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}
