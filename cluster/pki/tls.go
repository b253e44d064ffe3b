package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"
)

// Protocol is one ALPN name that a listener speaks, and to whom.
type Protocol struct {
	Name      string // "trivet-raft", "h2"
	Operators bool   // operators may speak it, not peers alone
	Anonymous bool   // clients without a certificate may speak it: joiners, who have none yet
}

// Endpoint is our end of connections between peers: what we show and what we
// demand. Its functions are called in every handshake, by several goroutines at
// once, so a renewed certificate serves the next connection without a restart.
type Endpoint struct {
	Credentials func() *Credentials // the present ones; never nil
	Now         func() time.Time    // the time certificates are judged at
	Tolerance   time.Duration       // see Want
	// Refused, if set, hears of every refusal by this end with the typed errors of
	// this package, from within the handshake: an http.Server would only log it,
	// and an IncarnationError that is Superseded must reach the code that stops the
	// peer. It must not block.
	Refused func(error)
}

// ServerTLS is the configuration of the listener between peers. It speaks the
// protocols and no other, verifies every certificate it is given, and demands
// one unless the protocol is Anonymous. A client that names no protocol is refused.
func ServerTLS(end Endpoint, protocols ...Protocol) *tls.Config {
	config := end.config()
	for _, p := range protocols {
		config.NextProtos = append(config.NextProtos, p.Name)
	}
	config.ClientAuth = tls.RequestClientCert // judged in VerifyConnection, with our errors and our time
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return end.Credentials().certificate(), nil
	}
	config.VerifyConnection = end.watched(func(cs tls.ConnectionState) error {
		return end.admit(cs, protocols)
	})
	return config
}

// errNoProtocol refuses clients that do not negotiate, which crypto/tls lets pass.
var errNoProtocol = errors.New("the other end names no protocol of this port")

func (end Endpoint) admit(cs tls.ConnectionState, protocols []Protocol) error {
	for _, p := range protocols {
		if p.Name != cs.NegotiatedProtocol {
			continue
		}
		if p.Anonymous && len(cs.PeerCertificates) == 0 {
			return nil
		}
		want := end.want("")
		want.Operators = p.Operators
		_, err := Identify(cs, want)
		return err
	}
	return errNoProtocol
}

// ClientTLS is the configuration for calling a peer over one protocol. peer is
// the server ID that must answer: the address alone proves nothing, since a
// wiped peer may have come back at it (docs/design.md#identity). "" accepts any peer of the cluster.
func ClientTLS(end Endpoint, peer, protocol string) *tls.Config {
	config := end.config(protocol)
	config.GetClientCertificate = end.show
	config.VerifyConnection = end.watched(func(cs tls.ConnectionState) error {
		if cs.NegotiatedProtocol != protocol {
			return errNoProtocol
		}
		return VerifyPeer(cs, end.want(peer))
	})
	return config
}

// SurveyTLS is the configuration for asking without a certificate who is at a
// peer's port. found receives the identity of a peer that one of the CAs has
// signed, of any incarnation, also if its certificate has expired.
func SurveyTLS(cas []*x509.Certificate, protocol string, found func(Identity)) *tls.Config {
	config := Endpoint{}.config(protocol)
	config.VerifyConnection = func(cs tls.ConnectionState) error {
		err := error(ErrNoCertificate)
		if len(cs.PeerCertificates) == 0 {
			return err
		}
		for _, ca := range cas {
			var id Identity
			if id, err = peerUnder(ca, cs.PeerCertificates[0]); err == nil {
				found(id)
				return nil
			}
		}
		return err
	}
	return config
}

// InquiryTLS is the configuration for learning which incarnation the other end
// lives in: a peer of the cluster, of any incarnation. found is given its identity
// once it is verified. The other end sees our certificate, and so our incarnation.
func InquiryTLS(end Endpoint, protocol string, found func(Identity)) *tls.Config {
	config := end.config(protocol)
	config.GetClientCertificate = end.show
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

func (end Endpoint) show(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return end.Credentials().certificate(), nil
}

func (end Endpoint) config(protocols ...string) *tls.Config {
	return &tls.Config{
		NextProtos:             protocols,
		MinVersion:             tls.VersionTLS13,
		Time:                   end.Now,
		SessionTicketsDisabled: true, // a resumed session would outlive the certificate it was made with
		InsecureSkipVerify:     true, // replaced by VerifyConnection: see the package comment
	}
}

func (end Endpoint) want(peer string) Want {
	own := end.Credentials()
	return Want{
		Cluster:        own.Identity.Cluster,
		CA:             own.CA,
		Peer:           peer,
		Incarnation:    own.Identity.Incarnation,
		AnyIncarnation: own.Identity.Role == RoleOperator,
		Now:            end.Now(),
		Tolerance:      end.Tolerance,
	}
}

// watched tells Refused what verify refuses.
func (end Endpoint) watched(verify func(tls.ConnectionState) error) func(tls.ConnectionState) error {
	return func(cs tls.ConnectionState) error {
		err := verify(cs)
		if err != nil && end.Refused != nil {
			end.Refused(err)
		}
		return err
	}
}
