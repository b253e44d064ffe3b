package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/internal/supportbundle"
)

// Bundler gathers what this peer knows of itself for support, without secrets. It
// does not block and needs no quorum.
type Bundler interface {
	Bundle() []supportbundle.File
}

// HostFiles are the files of one host.
type HostFiles struct {
	Peer  string               `json:"peer"`
	Files []supportbundle.File `json:"files"`
}

func (c *Control) bundle(ctx echo.Context) error {
	return ctx.JSON(http.StatusOK, HostFiles{Peer: c.Local.Status().Name, Files: c.Bundler.Bundle()})
}
