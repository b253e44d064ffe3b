package pki

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
)

// ErrProof refuses the proof of a former member's key.
var ErrProof = errors.New("the request is not signed with the key of its certificate")

// rejoinPurpose begins what a former member signs, so that no other signature of
// its key passes for it.
const rejoinPurpose = "trivet rejoin\x00"

// InquiryTLS is the configuration for learning which incarnation the other end
// lives in: a peer of the cluster, of any incarnation. found is given its identity
// once it is verified. The other end sees our certificate, and so our incarnation,
// unless the call is anonymous.
func InquiryTLS(end Endpoint, protocol string, anonymous bool, found func(Identity)) *tls.Config {
	config := end.config()
	config.NextProtos = []string{protocol}
	if !anonymous {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return end.Credentials().certificate(), nil
		}
	}
	config.VerifyConnection = func(cs tls.ConnectionState) error {
		if cs.NegotiatedProtocol != protocol {
			return errNoProtocol
		}
		want := end.want("")
		want.AnyIncarnation = true
		id, err := Identify(cs, want)
		if err == nil {
			found(id)
		}
		return err
	}
	return config
}

// SignRejoin signs the statement of a former member with the key of its
// certificate.
func SignRejoin(random io.Reader, key *ecdsa.PrivateKey, statement []byte) ([]byte, error) {
	digest := sha256.Sum256(append([]byte(rejoinPurpose), statement...))
	signature, err := ecdsa.SignASN1(random, key, digest[:])
	if err != nil {
		return nil, fmt.Errorf("sign the request: %w", err)
	}
	return signature, nil
}

// Proof is what a host shows to rejoin: the certificate of a former member, and
// its key's signature of a statement.
type Proof struct {
	Certificate []byte // PEM
	Statement   []byte
	Signature   []byte
}

// FormerPeer returns whose certificate a proof shows: that of a peer of this
// cluster, of an incarnation before want's. Whether the peer may rejoin is not for
// a certificate to say. Errors are those of [VerifyPeer], and [ErrProof].
func (p Proof) FormerPeer(want Want) (Identity, error) {
	leaf, err := ParseCertificate(p.Certificate)
	if err != nil {
		return Identity{}, err
	}
	before := want.Incarnation
	want.AnyIncarnation = true
	id, err := Identify(tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}, want)
	if err != nil {
		return Identity{}, err
	}
	if id.Incarnation >= before {
		return Identity{}, fmt.Errorf("peer %s is of incarnation %d, and only peers of an earlier one than %d rejoin", id.Peer, id.Incarnation, before)
	}
	key, ok := leaf.PublicKey.(*ecdsa.PublicKey)
	digest := sha256.Sum256(append([]byte(rejoinPurpose), p.Statement...))
	if !ok || !ecdsa.VerifyASN1(key, digest[:], p.Signature) {
		return Identity{}, ErrProof
	}
	return id, nil
}
