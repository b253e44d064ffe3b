package pki

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"time"
)

// How long certificates live. A renewal is due when two thirds of a life are
// over ([RenewAt]), which leaves a peer ten days to reach a leader.
const (
	CATTL       = 10 * 365 * day
	PeerTTL     = 30 * day
	OperatorTTL = 90 * day  // when none is asked for
	MaxTTL      = 366 * day // the most that Sign grants
	Backdate    = day       // a leaf begins this long before it was issued, for hosts whose clock is behind

	// PeerTolerance is for how long before its beginning and after its end peers
	// accept a peer's certificate (Endpoint.Tolerance): a cluster that was switched
	// off for a month, or that booted with its clocks two months ahead and was set
	// back, must come back by itself. It ends, so that a certificate of a member
	// that was away for longer is worth nothing.
	PeerTolerance = 365 * day

	day = 24 * time.Hour
	// caBackdate is longer: a CA's beginning protects nothing, since trust in it
	// comes from the token's hash, and a cluster founded by a host whose clock was
	// weeks ahead must not have to wait for its own beginning.
	caBackdate = 365 * day
)

// maxNames bounds the host names and addresses in one certificate.
const maxNames = 32

// CA is the cluster's certificate authority. Its key is replicated state, so
// every peer's disk holds it, and the leader signs (docs/design.md#identity).
type CA struct {
	cluster string
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
}

// NewCA founds the authority of a new cluster at the time now.
func NewCA(cluster string, now time.Time, random io.Reader) (*CA, error) {
	if err := checkName("cluster ID", cluster); err != nil {
		return nil, fmt.Errorf("new CA: %w", err)
	}
	key, err := NewKey(random)
	if err != nil {
		return nil, fmt.Errorf("new CA: %w", err)
	}
	serial, err := newSerial(random)
	if err != nil {
		return nil, fmt.Errorf("new CA: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{"Trivet"}, CommonName: "Trivet CA " + cluster},
		NotBefore:             now.Add(-caBackdate),
		NotAfter:              now.Add(CATTL),
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		URIs:                  []*url.URL{caURI(cluster)},
	}
	der, err := x509.CreateCertificate(random, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("new CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("new CA: %w", err)
	}
	return &CA{cluster: cluster, cert: cert, key: key}, nil
}

// ParseCA reads a CA from its certificate and key in PEM and checks that they
// belong together.
func ParseCA(certPEM, keyPEM []byte) (*CA, error) {
	cert, err := ParseCertificate(certPEM)
	if err != nil {
		return nil, fmt.Errorf("parse CA: %w", err)
	}
	key, err := ParseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("parse CA: %w", err)
	}
	cluster, err := clusterOfCA(cert)
	if err != nil {
		return nil, fmt.Errorf("parse CA: %w", err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("parse CA: the key is not the certificate's")
	}
	return &CA{cluster: cluster, cert: cert, key: key}, nil
}

// Certificate is the CA's own certificate; the caller must not change it.
func (ca *CA) Certificate() *x509.Certificate { return ca.cert }

// CertPEM is the CA's certificate in PEM; it is no secret.
func (ca *CA) CertPEM() []byte { return EncodeCertificate(ca.cert) }

// KeyPEM is the CA's private key in PEM: its holder can act as any peer.
func (ca *CA) KeyPEM() ([]byte, error) { return EncodeKey(ca.key) }

// Hash is what a join token says about the CA: see [HashCA].
func (ca *CA) Hash() [sha256.Size]byte { return HashCA(ca.cert) }

// HashCA is the SHA-256 of the certificate's DER, all of it and not its key
// alone, so that it is the number that "openssl x509 -fingerprint -sha256" shows.
func HashCA(cert *x509.Certificate) [sha256.Size]byte { return sha256.Sum256(cert.Raw) }

// Order is what the CA is asked to sign.
type Order struct {
	Identity  Identity
	PublicKey *ecdsa.PublicKey
	TTL       time.Duration // more than 0, at most MaxTTL; shortened to the CA's own end
	Names     []string      // host names and addresses for foreign clients such as curl; peers do not look at them
	// Replaces is the certificate that the new one replaces; nil: none. Which of
	// two clocks was wrong cannot be known, so the new certificate is good whenever
	// the old one was: it begins no later than Backdate before the old one was
	// issued, and ends no earlier than that one, if that is within MaxTTL of now.
	Replaces *x509.Certificate
}

// validity returns when the ordered certificate begins and ends.
func (o Order) validity(now time.Time) (begin, end time.Time) {
	begin, end = now.Add(-Backdate), now.Add(o.TTL)
	if o.Replaces == nil {
		return begin, end
	}
	begin = earliest(begin, o.Replaces.NotAfter.Add(-o.TTL-Backdate))
	if !o.Replaces.NotAfter.After(now.Add(MaxTTL)) {
		end = latest(end, o.Replaces.NotAfter)
	}
	return begin, end
}

// Sign issues a certificate, in PEM, that begins Backdate before now and ends TTL
// after it, where it replaces no other. It refuses identities of other clusters.
func (ca *CA) Sign(random io.Reader, now time.Time, order Order) ([]byte, error) {
	if err := ca.check(now, order); err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	serial, err := newSerial(random)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	id := order.Identity
	begin, end := order.validity(now)
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject: pkix.Name{Organization: []string{"Trivet"}, OrganizationalUnit: []string{id.Role.String()},
			CommonName: id.Name()},
		NotBefore:             latest(begin, ca.cert.NotBefore),
		NotAfter:              earliest(end, ca.cert.NotAfter),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           extKeyUsage(id.Role),
		URIs:                  []*url.URL{id.URI()},
	}
	for _, name := range order.Names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(random, template, ca.cert, order.PublicKey, ca.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return EncodeCertificate(cert), nil
}

func (ca *CA) check(now time.Time, order Order) error {
	if err := order.Identity.Validate(); err != nil {
		return err
	}
	switch {
	case order.Identity.Cluster != ca.cluster:
		return &WrongClusterError{Theirs: order.Identity.Cluster, Ours: ca.cluster}
	case order.PublicKey == nil:
		return errors.New("no public key")
	case order.TTL <= 0 || order.TTL > MaxTTL:
		return fmt.Errorf("life of %v, must be above 0 and at most %v", order.TTL, MaxTTL)
	case len(order.Names) > maxNames:
		return fmt.Errorf("%d names, at most %d", len(order.Names), maxNames)
	case !now.Before(ca.cert.NotAfter) || now.Before(ca.cert.NotBefore):
		return newValidityError("the cluster's CA", ca.cert, now)
	}
	return checkCurve(order.PublicKey)
}

// extKeyUsage lets peers serve and call, operators only call, APIs only serve.
// It is for foreign programs; Identify goes by the role.
func extKeyUsage(role Role) []x509.ExtKeyUsage {
	switch role {
	case RolePeer:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	case RoleAPI:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

// IssuedAt is when the certificate of an operator was made; it began a day
// before. A peer's may have begun earlier: see Order.Replaces.
func IssuedAt(cert *x509.Certificate) time.Time { return cert.NotBefore.Add(Backdate) }

// RenewAt is the moment from which the certificate of a peer, or of its API,
// should be replaced: a third before the end of the life it was issued for.
func RenewAt(cert *x509.Certificate) time.Time {
	life := min(cert.NotAfter.Sub(IssuedAt(cert)), PeerTTL)
	return cert.NotAfter.Add(-life / 3)
}

// NeedsRenewal reports whether a certificate should be replaced at the time now:
// in the last third of its life, before it begins, and if it ends more than MaxTTL
// from now. In the last two cases the clock was ahead when it was made, or is behind
// now. An end within MaxTTL is no reason: a certificate that replaces another one
// keeps it, see Order.Replaces.
func NeedsRenewal(cert *x509.Certificate, now time.Time) bool {
	return now.Before(cert.NotBefore) || cert.NotAfter.After(now.Add(MaxTTL)) || !now.Before(RenewAt(cert))
}

func caURI(cluster string) *url.URL {
	return &url.URL{Scheme: uriScheme, Host: cluster, Path: "/ca"}
}

func clusterOfCA(cert *x509.Certificate) (string, error) {
	u, err := trivetURI(cert)
	if err != nil {
		return "", err
	}
	if !cert.IsCA || *u != *caURI(u.Host) {
		return "", errors.New("certificate is not a Trivet cluster's CA")
	}
	return u.Host, checkName("cluster ID", u.Host)
}

// newSerial draws 127 random bits, which fit the 20 octets that X.509 allows.
func newSerial(random io.Reader) (*big.Int, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	b[0] = b[0]&0x7f | 0x40 // positive and never zero
	return new(big.Int).SetBytes(b[:]), nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
