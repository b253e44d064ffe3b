package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/doctor"
)

// Doctor gathers what this host knows of itself, within bounded time. It needs
// no quorum.
type Doctor interface {
	Facts(ctx context.Context) doctor.Facts
}

// PathPeerDoctor is where peers ask each other for the facts of their hosts.
const PathPeerDoctor = "/peer/v1/doctor"

// factsLimit bounds the wait for the facts of all hosts: longer than a host
// takes, shorter than a command waits.
const factsLimit = 12 * time.Second

// DoctorHandler answers other peers. Let members through to it alone.
func DoctorHandler(d Doctor) http.Handler {
	e := api.NewEcho()
	e.GET(PathPeerDoctor, func(ctx echo.Context) error {
		return ctx.JSON(http.StatusOK, d.Facts(ctx.Request().Context()))
	})
	return e
}

func (c *Control) doctor(ctx echo.Context) error {
	return ctx.JSON(http.StatusOK, c.Facts(ctx.Request().Context(), everywhere(ctx)))
}

// Facts returns what this host knows of itself, and with all what the other hosts
// do, by name. It takes at most 12 s and needs no quorum.
func (c *Control) Facts(ctx context.Context, all bool) []doctor.Facts {
	limited, cancel := context.WithTimeout(ctx, factsLimit)
	defer cancel()
	var work sync.WaitGroup
	var rows []doctor.Facts
	if all {
		work.Go(func() { rows = others(limited, c.Others) })
	}
	own := c.Doctor.Facts(limited)
	work.Wait()
	rows = append(rows, own)
	slices.SortFunc(rows, func(a, b doctor.Facts) int { return strings.Compare(a.Peer, b.Peer) })
	return rows
}

// others are the facts of the other hosts; of one that says nothing, why.
func others(ctx context.Context, all Others) []doctor.Facts {
	var rows []doctor.Facts
	for _, a := range all.Ask(ctx, PathPeerDoctor) {
		var row doctor.Facts
		if a.Err == nil {
			if err := json.Unmarshal(a.Body, &row); err != nil {
				a.Err = fmt.Errorf("decode response from %s: %w", a.Name, err)
			}
		}
		if a.Err != nil {
			row = doctor.Facts{Error: a.Err.Error()}
		}
		row.Peer, row.ID = a.Name, a.ID // as the cluster calls it, not as it calls itself
		rows = append(rows, row)
	}
	return rows
}
