package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"
)

// Want is what one end of a connection demands of the other.
type Want struct {
	Cluster     string            // UUID
	CA          *x509.Certificate // of the cluster
	Peer        string            // server ID of the peer that must answer; "" for any
	Operators   bool              // operators may speak too; never together with Peer
	Incarnation uint64            // the one we live in; peers of another are refused
	Now         time.Time         // the time certificates are judged at
	Tolerance   time.Duration     // for how long before its beginning and after its end a peer's certificate is accepted

	// AnyIncarnation accepts peers of every incarnation. It is for operators and
	// joiners, who live in none: an operator's certificate outlives a recover.
	AnyIncarnation bool
}

// VerifyPeer judges the other end of a finished handshake, in this order:
// presented a certificate ([ErrNoCertificate]); signed by our CA
// ([ErrUnknownCA], or [*WrongClusterError] when it names another cluster); of our
// cluster; of our incarnation ([*IncarnationError]); the peer or role wanted
// ([*WrongPeerError]); valid now ([*ValidityError]). The order matters: only a
// proven member can make us stop, and a left-over peer learns that it is one
// even when its certificate is long expired.
func VerifyPeer(cs tls.ConnectionState, want Want) error {
	_, err := Identify(cs, want)
	return err
}

// Identify is VerifyPeer that says who it is.
func Identify(cs tls.ConnectionState, want Want) (Identity, error) {
	if len(cs.PeerCertificates) == 0 {
		return Identity{}, ErrNoCertificate
	}
	leaf := cs.PeerCertificates[0]
	id, idErr := IdentityOf(leaf)
	if err := verifyChain(leaf, want.CA); err != nil {
		if idErr == nil && id.Cluster != want.Cluster {
			return Identity{}, &WrongClusterError{Theirs: id.Cluster, Ours: want.Cluster, Unproven: true}
		}
		return Identity{}, err
	}
	if idErr != nil {
		return Identity{}, idErr
	}
	if err := want.checkIdentity(id); err != nil {
		return Identity{}, err
	}
	if err := want.judgeTime(id, leaf); err != nil {
		return Identity{}, err
	}
	return id, nil
}

// StillGood judges the other end of a connection again that was verified when it
// began: its certificate may have ended since, or be of an earlier incarnation.
// A clock that was set back ends no connection.
func (end Endpoint) StillGood(cs tls.ConnectionState) error {
	want := end.want("")
	want.Operators = true
	if len(cs.PeerCertificates) > 0 {
		want.Now = latest(want.Now, cs.PeerCertificates[0].NotBefore)
	}
	return VerifyPeer(cs, want)
}

// checkIdentity compares a proven identity with what is wanted.
func (w Want) checkIdentity(id Identity) error {
	switch {
	case id.Cluster != w.Cluster:
		return &WrongClusterError{Theirs: id.Cluster, Ours: w.Cluster}
	case id.Role == RolePeer && id.Incarnation != w.Incarnation && !w.AnyIncarnation:
		return &IncarnationError{Peer: id.Peer, Theirs: id.Incarnation, Ours: w.Incarnation}
	case w.Peer != "" && (id.Role != RolePeer || id.Peer != w.Peer):
		return &WrongPeerError{Theirs: id, Want: "peer " + w.Peer}
	case id.Role != RolePeer && !w.Operators:
		return &WrongPeerError{Theirs: id, Want: "a peer"}
	case id.Role != RolePeer && id.Role != RoleOperator:
		return &WrongPeerError{Theirs: id, Want: "a peer or an operator"}
	}
	return nil
}

// judgeTime grants Tolerance to peers alone: an operator with an expired
// certificate can be given a new one on any peer's socket. It is granted at both
// ends, since a certificate and the clock that judges it disagree alike where the
// one was made, or the other is read, with a wrong clock.
func (w Want) judgeTime(id Identity, leaf *x509.Certificate) error {
	begin, end := leaf.NotBefore, leaf.NotAfter
	if id.Role == RolePeer {
		begin, end = begin.Add(-w.Tolerance), end.Add(w.Tolerance)
	}
	if w.Now.Before(begin) || w.Now.After(end) {
		return newValidityError(id.String(), leaf, w.Now)
	}
	return nil
}

// peerUnder returns the peer, of any incarnation, whose certificate ca signed. It does
// not judge time.
func peerUnder(ca, leaf *x509.Certificate) (Identity, error) {
	cluster, err := clusterOfCA(ca)
	if err != nil {
		return Identity{}, err
	}
	if err := verifyChain(leaf, ca); err != nil {
		return Identity{}, err
	}
	id, err := IdentityOf(leaf)
	if err != nil {
		return Identity{}, err
	}
	return id, Want{Cluster: cluster, AnyIncarnation: true}.checkIdentity(id)
}

// verifyChain proves that ca signed leaf. What the leaf may be used for follows
// from its role, which judge compares; and time is judged elsewhere, so the
// chain is verified at a moment of the leaf's own life.
func verifyChain(leaf, ca *x509.Certificate) error {
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots:       roots,
		CurrentTime: leaf.NotAfter,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnknownCA, err)
	}
	return nil
}
