package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Credentials are what a peer or operator proves itself with and judges others
// by: its certificate, its key and the cluster's CA. On disk they are one PEM
// file, so that one rename replaces all of them or nothing.
type Credentials struct {
	Identity Identity
	Leaf     *x509.Certificate
	CA       *x509.Certificate
	Key      *ecdsa.PrivateKey
}

// NewCredentials joins the parts, in PEM, and checks that they fit: the key is
// the leaf's, and the leaf was signed by the CA for the CA's cluster. It does
// not judge time: expired credentials still load, to be renewed.
func NewCredentials(leafPEM, caPEM []byte, key *ecdsa.PrivateKey) (*Credentials, error) {
	leaf, err := ParseCertificate(leafPEM)
	if err != nil {
		return nil, err
	}
	ca, err := ParseCertificate(caPEM)
	if err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	return fit(leaf, ca, key)
}

func fit(leaf, ca *x509.Certificate, key *ecdsa.PrivateKey) (*Credentials, error) {
	cluster, err := clusterOfCA(ca)
	if err != nil {
		return nil, err
	}
	id, err := IdentityOf(leaf)
	if err != nil {
		return nil, err
	}
	switch {
	case !key.PublicKey.Equal(leaf.PublicKey):
		return nil, errors.New("the key is not the certificate's")
	case id.Cluster != cluster:
		return nil, &WrongClusterError{Theirs: id.Cluster, Ours: cluster}
	}
	if err := verifyChain(leaf, ca); err != nil {
		return nil, err
	}
	return &Credentials{Identity: id, Leaf: leaf, CA: ca, Key: key}, nil
}

// Encode returns the credentials as the bytes of a file: leaf, CA, key. It is
// a secret; write it with mode 0600.
func (c *Credentials) Encode() ([]byte, error) {
	key, err := EncodeKey(c.Key)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{EncodeCertificate(c.Leaf), EncodeCertificate(c.CA), key}, nil), nil
}

// ParseCredentials reads what Encode wrote, with the checks of [NewCredentials].
func ParseCredentials(text []byte) (*Credentials, error) {
	if len(text) > maxPEM {
		return nil, fmt.Errorf("parse credentials: %d bytes, at most %d", len(text), maxPEM)
	}
	kinds := []string{pemCertificate, pemCertificate, pemKey}
	blocks := make([][]byte, 0, len(kinds))
	for _, kind := range kinds {
		block, rest := pem.Decode(text)
		if block == nil || block.Type != kind {
			return nil,
				fmt.Errorf("parse credentials: block %d of the file is not a %s; it must hold the certificate, the CA and the key",
					len(blocks)+1, kind)
		}
		blocks, text = append(blocks, block.Bytes), rest
	}
	if len(bytes.TrimSpace(text)) > 0 {
		return nil, errors.New("parse credentials: something follows the key")
	}
	leaf, err := x509.ParseCertificate(blocks[0])
	if err != nil {
		return nil, fmt.Errorf("parse credentials: certificate: %w", err)
	}
	ca, err := x509.ParseCertificate(blocks[1])
	if err != nil {
		return nil, fmt.Errorf("parse credentials: CA: %w", err)
	}
	key, err := parseKeyDER(blocks[2])
	if err != nil {
		return nil, fmt.Errorf("parse credentials: %w", err)
	}
	c, err := fit(leaf, ca, key)
	if err != nil {
		return nil, fmt.Errorf("parse credentials: %w", err)
	}
	return c, nil
}

// certificate is the form crypto/tls wants. The CA is part of the chain so that
// a joiner, who has nothing but its hash, sees it.
func (c *Credentials) certificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{c.Leaf.Raw, c.CA.Raw}, PrivateKey: c.Key, Leaf: c.Leaf}
}
