package admin

import (
	"context"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
)

// Credentials are a new operator certificate; the key is not kept.
type Credentials struct {
	Name string `json:"name"`
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// Trust is what the peers trust each other by.
type Trust interface {
	// RotateGossip begins a rotation of the gossip key.
	RotateGossip(ctx context.Context) error
	// Certificates asks every peer for the one it shows.
	Certificates(ctx context.Context) []Certificate
	// Renew gives this peer a new certificate at once.
	Renew() (Certificate, error)
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

func (c *Control) trustRoutes(g *echo.Group) {
	g.GET("/certificates", c.certificates)
	g.POST("/certificates/renewal", c.renewCertificate)
	g.DELETE("/operators/:name", c.revokeOperator)
	g.GET("/gossip", c.gossip)
	g.POST("/gossip/rotation", c.rotateGossip)
	g.POST("/tokens/rotation", c.rotateTokens)
}

func (c *Control) certificates(ctx echo.Context) error {
	limited, cancel := context.WithTimeout(ctx.Request().Context(), factsLimit)
	defer cancel()
	return ctx.JSON(http.StatusOK, c.Trust.Certificates(limited))
}

func (c *Control) renewCertificate(ctx echo.Context) error {
	made, err := c.Trust.Renew()
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusOK, made)
}

func (c *Control) revokeOperator(ctx echo.Context) error {
	if err := c.Keys.RevokeOperator(ctx.Request().Context(), ctx.Param("name")); err != nil {
		return err
	}
	return ctx.NoContent(http.StatusNoContent)
}

func (c *Control) gossip(ctx echo.Context) error {
	v, err := c.read(ctx)
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusOK, gossipKeys(v))
}

func gossipKeys(v fsm.View) GossipKeys {
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
	return out
}

func (c *Control) rotateGossip(ctx echo.Context) error {
	if err := c.Trust.RotateGossip(ctx.Request().Context()); err != nil {
		return err
	}
	return ctx.NoContent(http.StatusAccepted)
}

// rotateTokens voids every join token, then makes one: should that fail, none
// is left, which is the safe half.
func (c *Control) rotateTokens(ctx echo.Context) error {
	ttl, err := tokenTTL(ctx)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx.Request().Context(), adminLimit)
	defer cancel()
	v, err := c.Log.Read(limited)
	if err != nil {
		return err
	}
	for _, t := range v.JoinTokens() { // at most fsm.MaxJoinTokens
		res, err := api.Traced(c.Do).Do(limited, "", fsm.RevokeJoinToken{ID: t.ID})
		if err != nil {
			return err
		}
		if err := res.Err(); err != nil && res.Code != fsm.NotFound {
			return err
		}
	}
	made, err := c.Keys.NewJoinToken(limited, ttl)
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusCreated, made)
}
