package pki

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"time"
)

// JoinerTLS is the configuration for the one connection that a joiner makes
// without a certificate, before it sends its secret. The chain that the server presents
// has to hold the CA whose [HashCA] the token names, and that CA has to have signed the
// leaf, a peer's, valid now.
func JoinerTLS(token JoinToken, now func() time.Time, protocol string) *tls.Config {
	config := Endpoint{Now: now}.config(protocol)
	config.VerifyConnection = func(cs tls.ConnectionState) error {
		if len(cs.PeerCertificates) == 0 {
			return ErrNoCertificate
		}
		leaf, above := cs.PeerCertificates[0], cs.PeerCertificates[1:]
		i := slices.IndexFunc(above, func(ca *x509.Certificate) bool { return HashCA(ca) == token.CAHash })
		if i < 0 {
			return ErrCAHash
		}
		id, err := peerUnder(above[i], leaf)
		if err == nil {
			err = Want{Now: now()}.judgeTime(id, leaf)
		}
		if err == nil && cs.NegotiatedProtocol != protocol {
			err = errNoProtocol
		}
		return err
	}
	return config
}
