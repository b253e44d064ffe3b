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

	mu   sync.Mutex
	pair *tls.Certificate
	next time.Time // not before this are they looked at again

	looks  bounds.Calls   // at the files; the rest is theirs
	seen   [2]os.FileInfo // when the pair, or the failure, was read
	broken bool           // and that was logged
}

// OpenCertificateFiles reads the files; the error names the option and the file.
func OpenCertificateFiles(cert, key string, logger *slog.Logger) (*CertificateFiles, error) {
	f := &CertificateFiles{cert: cert, key: key, logger: logger, stat: os.Stat}
	if err := f.readPair(); err != nil {
		return nil, fmt.Errorf("api.tls.cert_file and key_file: %w", err)
	}
	f.next = time.Now().Add(lookAtFile)
	return f, nil
}

// Get is the present certificate. A file system that hangs delays one handshake, for
// bounds.FileLimit, and the pair stays; the peer's look at all its files tells of that.
func (f *CertificateFiles) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); !now.Before(f.next) {
		f.next = now.Add(lookAtFile)
		f.mu.Unlock()
		_ = f.looks.Do(bounds.FileLimit, f.rereadFiles)
		f.mu.Lock()
	}
	return f.pair, nil
}

// rereadFiles reads the files again if one of them is another than was read. A
// failure is logged once, until a pair fits again.
func (f *CertificateFiles) rereadFiles() {
	if !f.broken && f.unchanged() {
		return
	}
	err := f.readPair()
	switch {
	case err == nil:
		f.broken = false
		f.logger.Info("API certificate reloaded", "file", f.cert, "not_after", f.pair.Leaf.NotAfter)
	case !f.broken:
		f.broken = true
		f.logger.Error("reload API certificate failed, keeping the current one", "file", f.cert, "not_after",
			f.pair.Leaf.NotAfter, "err", err)
	}
}

func (f *CertificateFiles) unchanged() bool {
	for n, path := range [...]string{f.cert, f.key} {
		info, err := f.stat(path)
		if err != nil || !sameFile(f.seen[n], info) {
			return false
		}
	}
	return true
}

// readPair takes the pair if it fits. What the files were is noted before they are
// read, so that a change under way shows at the next look.
func (f *CertificateFiles) readPair() error {
	var seen [2]os.FileInfo
	var text [2][]byte
	var errs [2]error
	for n, path := range [...]string{f.cert, f.key} {
		text[n], seen[n], errs[n] = bounds.ReadFile(path, maxSmallFile)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return fmt.Errorf("%s and %s: %w", f.cert, f.key, err)
	}
	f.seen = seen
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pair = &pair
	return nil
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
