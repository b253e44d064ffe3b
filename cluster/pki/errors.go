package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Refusals that carry nothing but their name.
var (
	// ErrNoCertificate: the other end presented no certificate where one is needed.
	ErrNoCertificate = errors.New("the other end presented no certificate")
	// ErrUnknownCA: the other end's certificate was not signed by our cluster's CA.
	ErrUnknownCA = errors.New("the other end's certificate is not signed by this cluster's CA")
	// ErrCAHash: the server at the other end does not hold the CA that the join
	// token names. The token's secret was not sent.
	ErrCAHash = errors.New("the server's CA is not the one named in the join token")
)

// WrongClusterError says that the other end belongs to another cluster.
type WrongClusterError struct {
	Theirs, Ours string
	Unproven     bool // their certificate is not signed by our CA, so Theirs is only its own word
}

// Error implements error.
func (e *WrongClusterError) Error() string {
	if e.Unproven {
		return fmt.Sprintf("the other end says that it belongs to cluster %s, ours is %s", e.Theirs, e.Ours)
	}
	return fmt.Sprintf("the other end belongs to cluster %s, ours is %s", e.Theirs, e.Ours)
}

// WrongPeerError says that a proven member of our cluster is not the one, or
// not of the role, that was expected: a wiped peer at an old address, or an
// operator where only peers may speak.
type WrongPeerError struct {
	Theirs Identity
	Want   string // what was expected, for the message
}

// Error implements error.
func (e *WrongPeerError) Error() string {
	return fmt.Sprintf("the other end is %v, expected %s", e.Theirs, e.Want)
}

// IncarnationError says that a proven peer of our cluster lives in another
// incarnation. When Theirs is higher the cluster was recovered or restored
// without us: close and stop (docs/design.md#founding). When it is lower the other end is
// the left-over and is refused.
type IncarnationError struct {
	Peer         string
	Theirs, Ours uint64
}

// Superseded reports that it is we who must close and stop.
func (e *IncarnationError) Superseded() bool { return e.Theirs > e.Ours }

// Error implements error.
func (e *IncarnationError) Error() string {
	if e.Superseded() {
		return fmt.Sprintf("peer %s is of incarnation %d, we of %d: the cluster was recovered without us", e.Peer, e.Theirs,
			e.Ours)
	}
	return fmt.Sprintf("peer %s is of incarnation %d, the cluster of %d: it must be wiped and join again", e.Peer,
		e.Theirs, e.Ours)
}

// ValidityError says that a certificate is too old or too young at the time it
// was judged at, which is as likely the fault of a clock.
type ValidityError struct {
	Whose               string // "peer 3f2a…"
	NotBefore, NotAfter time.Time
	Now                 time.Time
}

// Expired tells an old certificate from one that is not valid yet.
func (e *ValidityError) Expired() bool { return e.Now.After(e.NotAfter) }

// Error implements error.
func (e *ValidityError) Error() string {
	word, limit := "is not valid before", e.NotBefore
	if e.Expired() {
		word, limit = "expired on", e.NotAfter
	}
	return fmt.Sprintf("the certificate of %s %s %s, and the time here is %s: compare the clocks of both hosts",
		e.Whose, word, limit.UTC().Format(time.RFC3339), e.Now.UTC().Format(time.RFC3339))
}

func newValidityError(whose string, cert *x509.Certificate, now time.Time) *ValidityError {
	return &ValidityError{Whose: whose, NotBefore: cert.NotBefore, NotAfter: cert.NotAfter, Now: now}
}
