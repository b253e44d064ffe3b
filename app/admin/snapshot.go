package admin

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"
)

// saveSnapshot streams a linearizable copy of the state. It carries its own checksum, so
// that its reader notices a cut one.
func (s *State) saveSnapshot(c echo.Context) error {
	v, err := s.Log.Read(c.Request().Context())
	if err != nil {
		return err
	}
	w := &lazyWriter{ctx: c}
	if _, err = v.WriteTo(w); err == nil {
		return nil
	}
	err = fmt.Errorf("write snapshot: %w", err)
	if w.begun {
		return errors.Join(http.ErrAbortHandler, err)
	}
	return err
}

// lazyWriter sends the status with the first byte, so that an error before it
// is still an answer.
type lazyWriter struct {
	ctx   echo.Context
	begun bool
}

// Write implements io.Writer.
func (w *lazyWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.begun = true
		w.ctx.Response().Header().Set(echo.HeaderContentType, echo.MIMEOctetStream)
		w.ctx.Response().WriteHeader(http.StatusOK)
	}
	return w.ctx.Response().Write(b)
}
