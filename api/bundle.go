package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/internal/supportbundle"
)

// Bundler tells whoever helps what this peer knows of itself, without secrets. It
// does not block and needs no quorum.
type Bundler interface {
	Bundle() []supportbundle.File
}

// PathPeerBundle is where peers ask each other for their files.
const PathPeerBundle = "/peer/v1/bundle"

// Bounds of a bundle: for how long other peers are waited for, and how much one
// sends, squeezed; a peer takes no more than 1 MiB from another.
const (
	bundleLimit = 10 * time.Second
	bundleSent  = 1 << 20
)

// HostFiles are the files of one host, or why there are none.
type HostFiles struct {
	Peer  string               `json:"peer"`
	ID    string               `json:"id"`
	Self  bool                 `json:"self,omitempty"`
	Error string               `json:"error,omitempty"`
	Files []supportbundle.File `json:"files,omitempty"`
}

// BundleHandler answers other peers. Let members through to it alone.
func BundleHandler(b Bundler) http.Handler {
	e := newEcho()
	e.GET(PathPeerBundle, func(ctx echo.Context) error {
		packed, err := supportbundle.Pack(b.Bundle(), bundleSent)
		if err != nil {
			return err
		}
		return ctx.Blob(http.StatusOK, "application/gzip", packed)
	})
	return e
}

func (c *Control) bundle(ctx echo.Context) error {
	limited, cancel := context.WithTimeout(ctx.Request().Context(), bundleLimit)
	defer cancel()
	var work sync.WaitGroup
	var rows []HostFiles
	if everywhere(ctx) {
		work.Go(func() { rows = othersFiles(limited, c.Others) })
	}
	s := c.Local.Status()
	own := HostFiles{Peer: s.Name, ID: s.ID, Self: true, Files: c.Bundler.Bundle()}
	work.Wait()
	rows = append(rows, own)
	slices.SortFunc(rows, func(a, b HostFiles) int { return strings.Compare(a.Peer, b.Peer) })
	return ctx.JSON(http.StatusOK, rows)
}

// othersFiles are those of the other hosts; of one that sends none, why.
func othersFiles(ctx context.Context, all Others) []HostFiles {
	var rows []HostFiles
	for _, a := range all.Ask(ctx, PathPeerBundle) {
		row := HostFiles{Peer: a.Name, ID: a.ID}
		if a.Err == nil {
			row.Files, a.Err = supportbundle.Unpack(a.Body)
		}
		if a.Err != nil {
			row.Error = a.Err.Error()
		}
		rows = append(rows, row)
	}
	return rows
}
