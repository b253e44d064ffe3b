package api

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/internal/bounds"
)

// Certificates gives each handshake with a client of the API its certificate;
// it is tls.Config's GetCertificate.
type Certificates func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// TLS is how the API listens. HTTP/1.1 alone, as in the clear: no client needs
// more, and HTTP/2 has ways to keep a server busy that this server would have to
// bound again.
func TLS(get Certificates) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: get}
}

// CertificateFiles is a certificate and its key in two files that another program
// writes. They are read again when one of them changes, and until both fit the old
// pair serves: files are not replaced in one stroke. It may be used concurrently.
type CertificateFiles struct {
	cert, key string
	logger    *slog.Logger
	stat      func(path string) (os.FileInfo, error)

	looks bounds.Calls // at the files

	mu     sync.Mutex
	pair   *tls.Certificate
	next   time.Time      // not before this are they looked at again
	seen   [2]os.FileInfo // when the pair was read
	broken bool           // they did not fit at the last look, and that was logged
}

// OpenCertificateFiles reads the files; the error names the option and the file.
func OpenCertificateFiles(cert, key string, logger *slog.Logger) (*CertificateFiles, error) {
	f := &CertificateFiles{cert: cert, key: key, logger: logger, stat: os.Stat}
	pair, seen, err := f.readPair()
	if err != nil {
		return nil, fmt.Errorf("api.tls.cert_file and key_file: %w", err)
	}
	f.pair, f.seen, f.next = pair, seen, time.Now().Add(lookAtFile)
	return f, nil
}

// Get is the present certificate. A file system that hangs delays one handshake now and then, for
// bounds.FileLimit, and the pair stays; the peer's look at all its files tells of that.
func (f *CertificateFiles) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); !now.Before(f.next) {
		f.next = now.Add(lookAtFile)
		seen := f.seen
		if f.broken {
			seen = [2]os.FileInfo{} // of no file
		}
		f.mu.Unlock()
		_ = f.looks.Take(bounds.FileLimit, func() func() { return f.reread(seen) })
		f.mu.Lock()
	}
	return f.pair, nil
}

// reread reads the files if one of them is another than was seen.
func (f *CertificateFiles) reread(seen [2]os.FileInfo) (take func()) {
	if f.unchanged(seen) {
		return nil
	}
	pair, now, err := f.readPair()
	return func() { f.take(pair, now, err) }
}

// take puts a pair in force. A failure is logged once, until a pair fits again.
func (f *CertificateFiles) take(pair *tls.Certificate, seen [2]os.FileInfo, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.pair, f.seen, f.broken = pair, seen, false
		f.logger.Info("API certificate reloaded", "file", f.cert, "not_after", f.pair.Leaf.NotAfter)
	case !f.broken:
		f.broken = true
		f.logger.Error("reload API certificate failed, keeping the current one", "file", f.cert, "not_after",
			f.pair.Leaf.NotAfter, "err", err)
	}
}

func (f *CertificateFiles) unchanged(seen [2]os.FileInfo) bool {
	for n, path := range [...]string{f.cert, f.key} {
		info, err := f.stat(path)
		if err != nil || !sameFile(seen[n], info) {
			return false
		}
	}
	return true
}

// readPair reads a pair that fits. What the files were is noted before they are
// read, so that a change under way shows at the next look.
func (f *CertificateFiles) readPair() (pair *tls.Certificate, seen [2]os.FileInfo, err error) {
	var text [2][]byte
	var errs [2]error
	for n, path := range [...]string{f.cert, f.key} {
		text[n], seen[n], errs[n] = bounds.ReadFile(path, maxSmallFile)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, seen, err
	}
	both, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return nil, seen, fmt.Errorf("%s and %s: %w", f.cert, f.key, err)
	}
	return &both, seen, nil
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
