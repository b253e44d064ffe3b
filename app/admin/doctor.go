package admin

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/doctor"
)

// PathPeerDoctor is where peers ask each other for the facts of their hosts.
const PathPeerDoctor = "/peer/v1/doctor"

// factsLimit bounds the wait for the facts of all hosts: longer than a host
// takes, shorter than a command waits.
const factsLimit = 12 * time.Second

// Facts returns what this host knows of itself, and with all what the other hosts
// do, by name. It takes at most 12 s and needs no quorum.
func (h *Host) Facts(ctx context.Context, all bool) []doctor.Facts {
	limited, cancel := context.WithTimeout(ctx, factsLimit)
	defer cancel()
	var work sync.WaitGroup
	var rows []doctor.Facts
	if all {
		work.Go(func() { rows = others(limited, h.Ask) })
	}
	own := h.Examine(limited)
	work.Wait()
	rows = append(rows, own)
	slices.SortStableFunc(rows, func(a, b doctor.Facts) int { return strings.Compare(a.Peer, b.Peer) })
	return rows
}

// others are the facts of the other hosts; of one that says nothing, why.
func others(ctx context.Context, ask func(context.Context, string) []Answer) []doctor.Facts {
	var rows []doctor.Facts
	for _, a := range ask(ctx, PathPeerDoctor) {
		var row doctor.Facts
		if a.decode(&row); a.Err != nil {
			row = doctor.Facts{Error: a.Err.Error()}
		}
		row.Peer, row.ID = a.Name, a.ID // as the cluster calls it, not as it calls itself
		rows = append(rows, row)
	}
	return rows
}
