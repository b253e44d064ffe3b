package failover

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// Heard is what one question to a kubelet brought.
type Heard uint8

// What may be heard.
const (
	HeardNothing  Heard = 0 // no answer in time, or no way there
	HeardAlive    Heard = 1 // anything else that the host said
	HeardOwnFault Heard = 2 // this host could not even ask
	// HeardKernel is a connection that was taken and then nothing: the kubelet is
	// silent, but the machine is on.
	HeardKernel Heard = 3
)

// On reports whether a machine that this was heard of is on for certain, also
// against the word of a fence device.
func (h Heard) On() bool { return h == HeardAlive || h == HeardKernel }

// KubeletProber asks a kubelet for a sign of life.
type KubeletProber interface {
	// Knock asks once, bounded by ctx and its own timeout. The target is host:port.
	// It may be called concurrently.
	Knock(ctx context.Context, target string) Heard
}

// maxHealthz is how much of an answer is read, so that the connection can be used
// again.
const maxHealthz = 4 << 10

// Kubelets asks kubelets over HTTPS, without looking at their certificates: what
// counts is that the host answers, not what. Connections are kept, because a
// handshake every 2 s and kube node would cost more than all the rest.
type Kubelets struct {
	client  http.Client
	timeout time.Duration
}

var _ KubeletProber = (*Kubelets)(nil)

// NewKubelets returns a KubeletProber whose questions end after a timeout. Close it.
func NewKubelets(timeout time.Duration) *Kubelets {
	return &Kubelets{timeout: timeout, client: http.Client{
		Transport: &http.Transport{
			// No Proxy: it would answer for the dead. HTTP/1.1 alone: a connection that
			// timed out is given up, while HTTP/2 would ask again on the same one.
			//nolint:gosec // see Kubelets
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"},
				MinVersion: tls.VersionTLS12},
			MaxIdleConnsPerHost:    1,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: maxHealthz,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close gives back the connections that are kept.
func (k *Kubelets) Close() { k.client.CloseIdleConnections() }

// Knock implements KubeletProber.
func (k *Kubelets) Knock(ctx context.Context, target string) Heard {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	address := url.URL{Scheme: "https", Host: target, Path: "/healthz"}
	var connected atomic.Bool // the transport may dial in a goroutine that outlives this call
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectDone: func(_, _ string, err error) { connected.CompareAndSwap(false, err == nil) },
	})
	req, err := http.NewRequestWithContext(traced, http.MethodGet, address.String(), nil)
	if err != nil {
		return HeardOwnFault
	}
	resp, err := k.client.Do(req)
	if err != nil {
		h := isAnswer(err)
		if h == HeardNothing && connected.Load() {
			h = HeardKernel
		}
		return h
	}
	// The host has answered, also if the body is lost.
	_, _ = io.CopyN(io.Discard, resp.Body, maxHealthz)
	_ = resp.Body.Close()
	return HeardAlive
}

// isAnswer tells from an error whether the host is silent. Only no answer at all is
// silence: a refused or cut connection, a TLS alert, and an answer in plain HTTP are
// words of a machine that is on.
func isAnswer(err error) Heard {
	var timeout net.Error
	var name *net.DNSError
	switch {
	case errors.As(err, &name), errors.Is(err, context.Canceled):
		return HeardOwnFault
	case errors.As(err, &timeout) && timeout.Timeout():
		return HeardNothing
	case is(err, syscall.EHOSTUNREACH, syscall.EHOSTDOWN):
		return HeardNothing
	case is(err, syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL,
		syscall.ENOBUFS, syscall.ENOMEM,
		syscall.EACCES, syscall.EPERM, syscall.EINVAL):
		return HeardOwnFault
	}
	return HeardAlive
}

func is(err error, numbers ...syscall.Errno) bool {
	return slices.ContainsFunc(numbers, func(n syscall.Errno) bool { return errors.Is(err, n) })
}
