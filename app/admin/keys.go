package admin

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/operators"
)

// caWarning is how long before the end of the cluster's CA it is said: time to
// plan a cluster that is founded again. Nothing renews a CA.
const caWarning = 365 * 24 * time.Hour

// renewalLate is how long after its time a renewal is waited for in silence.
const renewalLate = 24 * time.Hour

// RotateGossip begins a rotation of the gossip key.
func (k *Keys) RotateGossip(ctx context.Context) error {
	key := make([]byte, membership.GossipKeySize)
	if _, err := io.ReadFull(k.Random, key); err != nil {
		return fmt.Errorf("make a gossip key: %w", err)
	}
	return k.commit(ctx, membership.RotateGossipKey{Key: key})
}

// Certificates asks every peer for the one that it shows at this moment.
func (k *Keys) Certificates(ctx context.Context) []Certificate {
	v := k.Store.View()
	members := v.Members()
	out := make([]Certificate, len(members))
	var asked sync.WaitGroup
	for i, m := range members { // at most membership.MaxMembers
		asked.Go(func() {
			out[i] = Certificate{Role: "peer", Name: m.Name}
			leaf, err := k.Renewal.Credentials().Leaf, error(nil)
			if m.ID != k.Self.ID {
				leaf, err = k.Forward.Certificate(ctx, cluster.ServerAddress(m.ID, m.Address))
			}
			if err != nil {
				out[i].Problem = err.Error()
				return
			}
			k.describe(&out[i], leaf)
		})
	}
	asked.Wait()
	ca := Certificate{Role: "ca", Name: k.Self.Cluster}
	k.describe(&ca, k.Renewal.Credentials().CA)
	out = append(out, ca)
	for _, o := range v.Operators() { // all certificates of one show as one
		row := Certificate{Role: "operator", Name: o.Name, NotAfter: unixTime(o.Ends)}
		if o.Issued > 0 {
			row.NotBefore = unixTime(o.Issued)
		}
		if o.Revoked > 0 {
			row.RevokedUpTo = unixTime(o.Revoked)
		}
		out = append(out, row)
	}
	return out
}

func (k *Keys) describe(row *Certificate, c *x509.Certificate) {
	row.NotBefore, row.NotAfter = c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339)
	switch now := k.Wall(); {
	case now.After(c.NotAfter):
		row.Problem = "it has ended"
	case now.Before(c.NotBefore):
		row.Problem = "it is not valid yet"
	case !c.IsCA && now.After(pki.RenewAt(c).Add(renewalLate)):
		row.Problem = "its renewal is overdue"
	case c.IsCA && now.After(c.NotAfter.Add(-caWarning)):
		row.Problem = "it ends within a year, and nothing renews it"
	}
}

func unixTime(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }

// Renew gives this peer a new certificate at once.
func (k *Keys) Renew(ctx context.Context) (Certificate, error) {
	row := Certificate{Role: "peer", Name: k.Self.Name}
	if isDry(ctx) { // the certificate is made and thrown away
		fresh, err := k.Renewal.Make(k.Store.View())
		if err != nil {
			return row, err
		}
		old := k.Renewal.Credentials().Leaf
		shown := func(c *x509.Certificate, serial string) string {
			return fmt.Sprintf("certificate of %s:\n  serial: %s\n  not_before: %s\n  not_after: %s\n", k.Self.Name, serial,
				c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339))
		}
		return row, &plannedError{Planned{Before: shown(old, fmt.Sprintf("%x", old.SerialNumber)),
			After: shown(fresh.Leaf, "(new)")}}
	}
	if err := k.Renewal.Renew(k.Store.View()); err != nil {
		return row, err
	}
	k.describe(&row, k.Renewal.Credentials().Leaf)
	return row, nil
}

// RevokeOperator voids all that was issued to this name up to now.
func (k *Keys) RevokeOperator(ctx context.Context, name string) error {
	if err := pki.OperatorIdentity(k.Self.Cluster, name).Validate(); err != nil {
		return invalid("%v", err)
	}
	now := k.Wall()
	return k.commit(ctx, operators.RevokeOperator{Name: name, UpTo: now.Unix(), Ends: now.Add(pki.MaxTTL).Unix()})
}

// KeyWarnings are what an operator must know of certificates and keys, of a peer that
// shows own.
func KeyWarnings(v fsm.View, own *pki.Credentials, now time.Time) (out []api.Warning) {
	switch {
	case now.Before(own.Leaf.NotBefore):
		out = append(out, api.Warning{Code: "certificate_not_yet_valid",
			Text: fmt.Sprintf(
				"this peer's certificate is valid from %s only: the clock was ahead when it was made, or is behind now",
				own.Leaf.NotBefore.UTC().Format(time.DateOnly)),
			Remedy: "compare 'date' on all hosts; 'trivet cert renew' says why it was not renewed"})
	case now.After(own.Leaf.NotAfter):
		out = append(out, api.Warning{Code: "certificate_expired", Text: "this peer's certificate has expired",
			Remedy: "'trivet cert renew' says why it was not renewed"})
	case now.After(pki.RenewAt(own.Leaf).Add(renewalLate)):
		out = append(out, api.Warning{Code: "certificate_old",
			Text: fmt.Sprintf("this peer's certificate should have been renewed; it ends on %s",
				own.Leaf.NotAfter.UTC().Format(time.DateOnly)),
			Remedy: "'trivet cert renew' says why it was not"})
	}
	if now.After(own.CA.NotAfter.Add(-caWarning)) {
		out = append(out, api.Warning{Code: "ca_ends",
			Text: fmt.Sprintf("the cluster's CA ends on %s, and no certificate outlives it",
				own.CA.NotAfter.UTC().Format(time.DateOnly)),
			Remedy: "found the cluster again in time: docs/security.md, 'Another CA'"})
	}
	if r := v.GossipRotation(); r.Stage != membership.GossipSettled &&
		v.Now() > r.Since.Add(2*membership.GossipStepTimeout) {
		out = append(out, api.Warning{Code: "gossip_rotation",
			Text: fmt.Sprintf("the rotation of the gossip key stands at '%v' since %v", r.Stage,
				v.Now().Sub(r.Since).Round(time.Second)),
			Remedy: "it goes on by itself under a leader; see 'trivet gossip status'"})
	}
	return out
}

// NewJoinToken makes a token that is good for ttl.
func (k *Keys) NewJoinToken(ctx context.Context, ttl time.Duration) (Token, error) {
	t, add, err := k.makeJoinToken(ttl)
	if err == nil {
		err = k.commit(ctx, add)
	}
	if err != nil {
		return Token{}, err
	}
	return Token{ID: t.ID, ExpiresIn: ttl.String(), Secret: t.String()}, nil
}

// makeJoinToken makes a token and the command that makes it known.
func (k *Keys) makeJoinToken(ttl time.Duration) (t pki.JoinToken, add membership.AddJoinToken, err error) {
	t, err = pki.NewJoinToken(pki.HashCA(k.Renewal.Credentials().CA), k.Wall().Add(ttl), k.Random)
	if err != nil {
		return t, add, invalid("%v", err)
	}
	return t, membership.AddJoinToken{ID: t.ID, Hash: t.SecretHash(), TTL: ttl}, nil
}

// IssueOperator makes a certificate of an operator. The key is made here and not kept.
func (k *Keys) IssueOperator(ctx context.Context, name string) (out Credentials, err error) {
	v, err := k.Store.Read(ctx)
	if err != nil {
		return out, err
	}
	ca, err := pki.ParseCA(v.Secrets().CACert, v.Secrets().CAKey)
	if err != nil {
		return out, fmt.Errorf("the cluster's CA: %w", err)
	}
	key, err := pki.NewKey(k.Random)
	if err != nil {
		return out, err
	}
	cert, err := ca.Sign(k.Random, k.Wall(), pki.Order{
		Identity: pki.OperatorIdentity(v.ClusterID(), name), PublicKey: &key.PublicKey, TTL: pki.OperatorTTL,
	})
	if err != nil {
		return out, invalid("%v", err)
	}
	// The log has the certificate before its owner does. Peers that know no such note keep no operator from one.
	if v.Admits(operators.NoteOperator{}) == nil {
		leaf, err := pki.ParseCertificate(cert)
		if err != nil {
			return out, err
		}
		note := operators.NoteOperator{Name: name, Issued: pki.IssuedAt(leaf).Unix(), Ends: leaf.NotAfter.Unix()}
		if err := k.commit(ctx, note); err != nil {
			return out, err
		}
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		return out, err
	}
	return Credentials{Name: name, CA: string(ca.CertPEM()), Cert: string(cert), Key: string(text)}, nil
}

// Credentials are a new operator certificate; the key is not kept.
type Credentials struct {
	Name string `json:"name"`
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// Certificate is one certificate in use, or those of one operator.
type Certificate struct {
	Role        string `json:"role"` // peer, ca, operator
	Name        string `json:"name"`
	NotBefore   string `json:"not_before,omitempty"` // of an operator: when the newest was issued
	NotAfter    string `json:"not_after,omitempty"`
	RevokedUpTo string `json:"revoked_up_to,omitempty"` // all certificates issued until then are void
	Problem     string `json:"problem,omitempty"`
}

// GossipKeys is how the rotation of the gossip key stands.
type GossipKeys struct {
	Stage     string   `json:"stage"` // settled, adding, using, dropping
	Confirmed []string `json:"confirmed"`
	Missing   []string `json:"missing"` // of those that live
}

// Keys makes credentials and tokens, and renews what the peers trust each other by.
type Keys struct {
	*Here
	Renewal *cluster.Renewal
}

// changes are the routes that have a dry run.
func (k *Keys) changes(g *echo.Group) {
	g.POST("/tokens", serve(http.StatusCreated, adminLimit, k.newToken))
	g.POST("/tokens/rotation", serve(http.StatusCreated, adminLimit, k.rotateTokens))
	g.POST("/operators/:name",
		serve(http.StatusCreated, adminLimit, func(ctx context.Context, c echo.Context, _ none) (Credentials, error) {
			return k.IssueOperator(ctx, c.Param("name"))
		}))
	g.DELETE("/operators/:name",
		act(func(ctx context.Context, c echo.Context, _ none) error { return k.RevokeOperator(ctx, c.Param("name")) }))
	g.POST("/certificates/renewal",
		get(func(ctx context.Context, _ echo.Context) (Certificate, error) { return k.Renew(ctx) }))
	g.POST("/gossip/rotation",
		serve(http.StatusAccepted, adminLimit,
			func(ctx context.Context, _ echo.Context, _ none) (none, error) { return none{}, k.RotateGossip(ctx) }))
}

func (k *Keys) routes(g *echo.Group) {
	g.GET("/certificates", serve(http.StatusOK, factsLimit,
		func(ctx context.Context, _ echo.Context, _ none) ([]Certificate, error) {
			return k.Certificates(ctx), nil
		}))
}

func gossipKeys(v fsm.View, _ echo.Context) (GossipKeys, error) {
	now := v.GossipRotation()
	out := GossipKeys{Stage: now.Stage.String(), Confirmed: []string{}, Missing: v.GossipMissing()}
	for _, m := range v.Members() {
		if slices.Contains(now.Confirmed, m.ID) {
			out.Confirmed = append(out.Confirmed, m.Name)
		}
	}
	if out.Missing == nil {
		out.Missing = []string{}
	}
	return out, nil
}
