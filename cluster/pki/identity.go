package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Role says what the owner of a certificate may be in the cluster.
type Role uint8

// The roles. The zero Role belongs to no certificate.
const (
	RolePeer     Role = iota + 1 // a host running trivet serve
	RoleOperator                 // a person or program that administers the cluster
	RoleAPI                      // the REST API of a peer, towards clients; no member of the cluster
)

// String returns the role as it stands in a certificate's URI.
func (r Role) String() string {
	switch r {
	case RolePeer:
		return "peer"
	case RoleOperator:
		return "operator"
	case RoleAPI:
		return "api"
	}
	return "role " + strconv.Itoa(int(r))
}

// maxNameLength bounds every name in a certificate, in bytes.
const maxNameLength = 64

const uriScheme = "trivet"

// Identity is who the owner of a certificate is.
type Identity struct {
	Cluster     string // UUID of the cluster
	Role        Role
	Peer        string // server ID; with RolePeer and RoleAPI
	Operator    string // name; only with RoleOperator
	Incarnation uint64 // of the cluster when the certificate was issued; only with RolePeer (docs/design.md#founding)
}

// PeerIdentity is the identity of a peer.
func PeerIdentity(cluster, peer string, incarnation uint64) Identity {
	return Identity{Cluster: cluster, Role: RolePeer, Peer: peer, Incarnation: incarnation}
}

// OperatorIdentity is the identity of an operator. It carries no incarnation:
// an operator's certificate outlives a recover.
func OperatorIdentity(cluster, name string) Identity {
	return Identity{Cluster: cluster, Role: RoleOperator, Operator: name}
}

// APIIdentity is the identity under which a peer serves clients. Between peers it
// proves nothing: what is offered to the whole world has no business there.
func APIIdentity(cluster, peer string) Identity {
	return Identity{Cluster: cluster, Role: RoleAPI, Peer: peer}
}

// Name is the server ID of a peer, also of its API, and the name of an operator.
func (i Identity) Name() string {
	if i.Role == RoleOperator {
		return i.Operator
	}
	return i.Peer
}

// String says who it is, for messages: "peer 3f2a…" or "operator ann".
func (i Identity) String() string { return i.Role.String() + " " + i.Name() }

// Validate reports what is wrong with the identity; nil means that it can
// stand in a certificate.
func (i Identity) Validate() error {
	if err := checkName("cluster ID", i.Cluster); err != nil {
		return err
	}
	switch {
	case i.Role != RolePeer && i.Role != RoleOperator && i.Role != RoleAPI:
		return fmt.Errorf("unknown %v", i.Role)
	case i.Role != RoleOperator && i.Operator != "", i.Role == RoleOperator && i.Peer != "":
		return errors.New("an identity is a peer's or an operator's, not both")
	case i.Role != RolePeer && i.Incarnation != 0:
		return fmt.Errorf("the identity of an %s carries no incarnation", i.Role)
	}
	return checkName(i.Role.String()+" name", i.Name())
}

// URI is the form in which a certificate carries the identity.
func (i Identity) URI() *url.URL {
	u := &url.URL{Scheme: uriScheme, Host: i.Cluster, Path: "/" + i.Role.String() + "/" + i.Name()}
	if i.Role == RolePeer {
		u.RawQuery = "incarnation=" + strconv.FormatUint(i.Incarnation, 10)
	}
	return u
}

// IdentityOf reads the identity from a certificate. It proves nothing: whether
// the certificate may be believed is judged by [VerifyPeer].
func IdentityOf(cert *x509.Certificate) (Identity, error) {
	u, err := trivetURI(cert)
	if err != nil {
		return Identity{}, err
	}
	id := Identity{Cluster: u.Host}
	role, name, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	switch role {
	case "peer":
		id.Role, id.Peer = RolePeer, name
		text, _ := strings.CutPrefix(u.RawQuery, "incarnation=")
		if id.Incarnation, err = strconv.ParseUint(text, 10, 64); err != nil {
			return Identity{}, fmt.Errorf("certificate names no incarnation: %q", u)
		}
	case "operator":
		id.Role, id.Operator = RoleOperator, name
	case "api":
		id.Role, id.Peer = RoleAPI, name
	default:
		return Identity{}, fmt.Errorf("certificate names no identity of a cluster: %q", u)
	}
	if err := id.Validate(); err != nil {
		return Identity{}, fmt.Errorf("certificate with an invalid identity: %w", err)
	}
	if *u != *id.URI() { // one spelling for each identity, so nothing can hide in another
		return Identity{}, fmt.Errorf("certificate spells its identity oddly: %q", u)
	}
	return id, nil
}

// trivetURI finds the one URI of ours that a certificate must carry.
func trivetURI(cert *x509.Certificate) (*url.URL, error) {
	var found *url.URL
	for _, u := range cert.URIs {
		if u.Scheme != uriScheme {
			continue
		}
		if found != nil {
			return nil, errors.New("certificate names two identities")
		}
		found = u
	}
	if found == nil {
		return nil, errors.New("certificate is not one of a Trivet cluster")
	}
	return found, nil
}

// checkName keeps names to characters that mean the same in a URI, a file name
// and a log line.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", what)
	case len(name) > maxNameLength:
		return fmt.Errorf("%s is %d bytes long, at most %d", what, len(name), maxNameLength)
	case name == "." || name == "..":
		return fmt.Errorf("%s %q is no name", what, name)
	}
	for _, r := range name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r) {
			return fmt.Errorf("%s %q holds %q; letters, digits, '.', '_' and '-' are allowed", what, name, r)
		}
	}
	return nil
}
