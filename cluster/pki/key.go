package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
)

// The PEM block types of everything this package writes.
const (
	pemCertificate = "CERTIFICATE"
	pemKey         = "PRIVATE KEY" // PKCS #8
	pemRequest     = "CERTIFICATE REQUEST"
)

// maxPEM bounds what a parser here looks at, in bytes. A file of a leaf, a CA
// and a key has less than 4 KiB.
const maxPEM = 64 << 10

// NewKey makes an ECDSA key on P-256, the one kind of key that the cluster uses.
func NewKey(random io.Reader) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return key, nil
}

// EncodeKey returns the key as a PKCS #8 PEM block. It is a secret.
func EncodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemKey, Bytes: der}), nil
}

// ParseKey reads what [EncodeKey] wrote, and nothing else.
func ParseKey(text []byte) (*ecdsa.PrivateKey, error) {
	der, err := onlyBlock(text, pemKey)
	if err != nil {
		return nil, fmt.Errorf("parse key: %w", err)
	}
	return parseKeyDER(der)
}

func parseKeyDER(der []byte) (*ecdsa.PrivateKey, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("parse key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("parse key: a %T, want an ECDSA key on P-256", parsed)
	}
	if err := checkCurve(&key.PublicKey); err != nil {
		return nil, fmt.Errorf("parse key: %w", err)
	}
	return key, nil
}

// NewRequest returns a certificate signing request (PEM) that proves possession of
// the key. It carries no name: the signer decides for whom the certificate is, from
// its own knowledge, never from the request's claims.
func NewRequest(random io.Reader, key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(random, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemRequest, Bytes: der}), nil
}

// ParseRequest returns the public key of a request after checking that its
// sender holds the private one.
func ParseRequest(text []byte) (*ecdsa.PublicKey, error) {
	der, err := onlyBlock(text, pemRequest)
	if err != nil {
		return nil, fmt.Errorf("parse certificate request: %w", err)
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("parse certificate request: %w", err)
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("certificate request is not signed by its own key: %w", err)
	}
	pub, ok := request.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("parse certificate request: a %T, want an ECDSA key on P-256", request.PublicKey)
	}
	if err := checkCurve(pub); err != nil {
		return nil, fmt.Errorf("parse certificate request: %w", err)
	}
	return pub, nil
}

func checkCurve(pub *ecdsa.PublicKey) error {
	if pub.Curve != elliptic.P256() {
		return fmt.Errorf("key is on %s, want P-256", pub.Curve.Params().Name)
	}
	return nil
}

// EncodeCertificate returns the certificate as a PEM block.
func EncodeCertificate(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: cert.Raw})
}

// ParseCertificate reads exactly one certificate in PEM.
func ParseCertificate(text []byte) (*x509.Certificate, error) {
	der, err := onlyBlock(text, pemCertificate)
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	return cert, nil
}

// onlyBlock reads a PEM text that holds one block of one type.
func onlyBlock(text []byte, kind string) ([]byte, error) {
	if len(text) > maxPEM {
		return nil, fmt.Errorf("%d bytes of PEM, at most %d", len(text), maxPEM)
	}
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("no PEM block")
	case block.Type != kind:
		return nil, fmt.Errorf("PEM block is a %s, want a %s", block.Type, kind)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, fmt.Errorf("something follows the %s", kind)
	}
	return block.Bytes, nil
}
