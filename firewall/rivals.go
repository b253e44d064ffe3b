package firewall

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/internal/pace"
)

// defendEvery is how often at most the floating IP is defended against another
// host that claims it: two hosts that answered each other at once would flood the
// network (DEFEND_INTERVAL of RFC 5227 section 2.4).
const defendEvery = 10 * time.Second

// rivals listens for other hosts that claim the floating IP while this one has
// it. Its methods are for the guard's goroutine.
type rivals struct {
	// heard yields, after each look, the MAC of another host that claims the
	// address, "" if there was none. It holds one and is never closed.
	heard  chan string
	cancel context.CancelFunc // ends the listening; nil: there is none
	work   *sync.WaitGroup
}

// listen begins to listen, until leave is called.
func (r *rivals) listen(n Neighbours, failing *slog.Logger) {
	r.stopListening()
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.work.Go(func() {
		for ctx.Err() == nil {
			mac, err := n.Contested(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				failing.Warn("listen for other holders of the floating IP failed, retrying", "err", err)
			default:
				select {
				case r.heard <- mac:
				case <-ctx.Done():
				}
			}
			if err != nil || mac != "" {
				pace.Wait(ctx, defendEvery)
			}
		}
	})
}

// stopListening ends the listening, without a wait: the address goes first.
func (r *rivals) stopListening() {
	if r.cancel != nil {
		r.cancel()
		r.cancel = nil
	}
	select {
	case <-r.heard: // of an address that is not held any more
	default:
	}
}

// defendAddress deals with another host that claims the address, "" if there is none.
// Neighbours follow the host that announced itself last: this host does so again,
// with the proof of the next turn, which comes at once.
func (w *watch) defendAddress(mac string) {
	known := w.g.Status().ConflictMAC
	w.g.updateStatus(func(s *GuardStatus) { s.ConflictMAC = mac })
	switch {
	case mac != "":
		w.announce.next = time.Time{}
		if known != mac {
			w.g.o.Logger.Warn("floating IP conflict: another host claims it while this one has it; announcing it again",
				"address", w.g.o.AddressText, "mac", mac)
		}
	case known != "":
		w.g.o.Logger.Info("floating IP conflict is over", "address", w.g.o.AddressText, "mac", known)
	}
}
