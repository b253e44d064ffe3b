package admin

import (
	"context"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
)

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
