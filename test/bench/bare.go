package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/api"
)

const (
	// bareAnswer is how long what a bare server says is: as a peer's answer to the
	// review that area haconfig sends, in bytes.
	bareAnswer = 1543
	// bareLimit bounds its start.
	bareLimit = 10 * time.Second
)

// startBare starts this program anew as a bare server, so that it shares nothing
// with whoever asks but the machine. It does not outlive this process.
func startBare(ctx context.Context) (serving *exec.Cmd, address string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, "", err
	}
	serving, address = exec.Command(self, "-bare", ports[0]), ports[0]
	serving.Stderr = os.Stderr
	serving.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := startAsUnit(serving); err != nil { // what its timers do, the peer's do
		return nil, "", fmt.Errorf("start a bare server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, bareLimit)
	defer cancel()
	err = until(ctx, "the bare server", func() bool {
		conn, err := dialReview(address)
		return err == nil && conn.close() == nil
	})
	if err != nil {
		return nil, "", errors.Join(err, endBare(serving))
	}
	return serving, address, nil
}

func endBare(serving *exec.Cmd) error {
	err := serving.Process.Kill()
	_ = serving.Wait() // the signal is its error
	return err
}

// serveBare is the least that a webhook in Go can do: it listens as a peer does, reads
// what is posted and answers always the same.
func serveBare(ctx context.Context, address string) error {
	pair, err := selfSigned()
	if err != nil {
		return err
	}
	answer := []byte(reviewPatched + strings.Repeat(" ", bareAnswer-len(reviewPatched)))
	server := &http.Server{
		Addr: address, Protocols: new(http.Protocols),
		TLSConfig: api.TLS(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair, nil }),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			_, _ = w.Write(answer) // who asked may have gone
		}),
	}
	server.Protocols.SetHTTP1(true)
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func selfSigned() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // as a peer's
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
