package api

import (
	"github.com/labstack/echo/v4"
)

// reapply has a node's data processed again: what the body brings, or what is
// stored.
func (i *Inspector) reapply(documents bodies) echo.HandlerFunc {
	return func(c echo.Context) error {
		ref, err := nodeRef(c)
		if err != nil {
			return err
		}
		body, release, err := documents.read(c)
		defer release()
		if err != nil {
			return err
		}
		ctx, cancel := limited(c)
		defer cancel()
		if err := i.Service.Reapply(ctx, ref, body); err != nil {
			return err
		}
		return accepted(c)
	}
}
