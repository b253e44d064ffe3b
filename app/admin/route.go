package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
)

// Bounds of the control interface.
const (
	maxControlBody = 64 << 10
	adminLimit     = 30 * time.Second
)

// none stands for a body that is not read or not written.
type none struct{}

// serve makes a handler: it decodes the body, unless that is none, works for at most
// limit, and answers with status and what f returns.
func serve[I, O any](status int, limit time.Duration,
	f func(ctx context.Context, c echo.Context, in I) (O, error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		var in I
		if _, nothing := any(in).(none); !nothing {
			if err := body(c, maxControlBody, &in); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(c.Request().Context(), limit)
		defer cancel()
		out, err := f(ctx, c, in)
		if err != nil || isDry(ctx) { // a key that a dry run made is thrown away
			return err
		}
		if _, nothing := any(out).(none); nothing {
			return c.NoContent(status)
		}
		return c.JSON(status, out)
	}
}

// get makes a handler that answers with what f returns.
func get[O any](f func(ctx context.Context, c echo.Context) (O, error)) echo.HandlerFunc {
	return serve(http.StatusOK, adminLimit,
		func(ctx context.Context, c echo.Context, _ none) (O, error) { return f(ctx, c) })
}

// act makes a handler of what has no answer.
func act[I any](f func(ctx context.Context, c echo.Context, in I) error) echo.HandlerFunc {
	return serve(http.StatusNoContent, adminLimit,
		func(ctx context.Context, c echo.Context, in I) (none, error) { return none{}, f(ctx, c, in) })
}

// body decodes a JSON object of at most so many bytes, and nothing after it; an empty body
// is an empty object, and unknown fields are mistakes.
func body(c echo.Context, most int64, into any) error {
	text, release, err := api.ControlBody(c, most)
	defer release()
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(into)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil && d.More() {
		err = errors.New("something follows the object")
	}
	if err != nil {
		return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid,
			Message: fmt.Sprintf("the body is not the JSON object expected: %v", err)}
	}
	return nil
}
