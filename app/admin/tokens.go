package admin

import (
	"context"
	"errors"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// Token is one join token; the secret is shown only when it is made.
type Token struct {
	ID        string `json:"id"`
	ExpiresIn string `json:"expires_in"`
	Secret    string `json:"token,omitempty"`
}

// NewToken asks for a join token.
type NewToken struct {
	TTL string `json:"ttl"` // a duration such as "24h"; empty for the default
}

// DefaultTokenTTL is how long a join token is good for by default.
const DefaultTokenTTL = 24 * time.Hour

func tokens(v fsm.View, _ echo.Context) ([]Token, error) {
	out := []Token{}
	for _, t := range v.JoinTokens() {
		out = append(out, Token{ID: t.ID, ExpiresIn: t.Expires.Sub(v.Now()).Round(time.Second).String()})
	}
	return out, nil
}

// ttl is how long the token asked for is to be good.
func (n NewToken) ttl() (time.Duration, error) {
	if n.TTL == "" {
		return DefaultTokenTTL, nil
	}
	ttl, err := time.ParseDuration(n.TTL)
	if err != nil {
		refused := invalid("ttl: %v", err)
		refused.Hint = "write a duration such as 30m or 24h"
		return 0, refused
	}
	return ttl, nil
}

// newToken makes a token.
func (k *Keys) newToken(ctx context.Context, _ echo.Context, in NewToken) (Token, error) {
	ttl, err := in.ttl()
	if err != nil {
		return Token{}, err
	}
	return k.NewJoinToken(ctx, ttl)
}

// rotateTokens voids every join token, then makes one: should that fail, none
// is left, which is the safe half.
func (k *Keys) rotateTokens(ctx context.Context, c echo.Context, in NewToken) (Token, error) {
	ttl, err := in.ttl()
	if err != nil {
		return Token{}, err
	}
	v, err := k.Store.Read(ctx)
	if err != nil {
		return Token{}, err
	}
	if isDry(ctx) {
		_, add, err := k.makeJoinToken(ttl)
		if err != nil {
			return Token{}, err
		}
		var commands []fsm.Command // all at once
		for _, t := range v.JoinTokens() {
			commands = append(commands, membership.RevokeJoinToken{ID: t.ID})
		}
		return Token{}, plan(ctx, k.Store.Read, k.Wall(), append(commands, add)...)
	}
	for _, t := range v.JoinTokens() { // at most membership.MaxJoinTokens
		if err := k.commit(ctx, membership.RevokeJoinToken{ID: t.ID}); err != nil && !errors.Is(err, fsm.NotFound) {
			return Token{}, err
		}
	}
	return k.newToken(ctx, c, in)
}
