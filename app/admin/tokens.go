package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
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

func (c *Control) tokens(ctx echo.Context) error {
	v, err := c.read(ctx)
	if err != nil {
		return err
	}
	out := []Token{}
	for _, t := range v.JoinTokens() {
		out = append(out, Token{ID: t.ID, ExpiresIn: t.Expires.Sub(v.Now()).Round(time.Second).String()})
	}
	return ctx.JSON(http.StatusOK, out)
}

func (c *Control) newToken(ctx echo.Context) error {
	ttl, err := tokenTTL(ctx)
	if err != nil {
		return err
	}
	t, err := c.Keys.NewJoinToken(ctx.Request().Context(), ttl)
	if err != nil {
		return err
	}
	return ctx.JSON(http.StatusCreated, t)
}

// tokenTTL reads how long the token asked for is to be good.
func tokenTTL(ctx echo.Context) (time.Duration, error) {
	var in NewToken
	if err := body(ctx, &in); err != nil || in.TTL == "" {
		return DefaultTokenTTL, err
	}
	ttl, err := time.ParseDuration(in.TTL)
	if err != nil {
		return 0, &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: fmt.Sprintf("ttl: %v", err), Hint: "write a duration such as 30m or 24h"}
	}
	return ttl, nil
}

func (c *Control) revokeToken(ctx echo.Context) error {
	if _, err := c.do(ctx, fsm.RevokeJoinToken{ID: ctx.Param("id")}); err != nil {
		return err
	}
	return ctx.NoContent(http.StatusNoContent)
}

// decodeStrict reads one JSON value and nothing after it; an empty body is an
// empty object.
func decodeStrict(r io.Reader, into any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil && d.More() {
		err = errors.New("something follows the object")
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return &api.Error{Status: http.StatusRequestEntityTooLarge, Code: api.CodeInvalid, Message: fmt.Sprintf("the body has more than %d bytes", tooLarge.Limit)}
	}
	if err != nil {
		return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: fmt.Sprintf("the body is not the JSON object expected: %v", err)}
	}
	return nil
}
