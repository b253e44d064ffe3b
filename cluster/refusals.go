package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Bounds of join requests with tokens that this peer does not know. Each costs
// the leader a proof of its leadership, and none costs an entry of the log.
const (
	unknownPerSource = 1 // a second
	unknownBurst     = 5
	unknownInAll     = 10 // a second
	unknownInAllMost = 20
	// refusalsEvery is the pause between two lines of the log about refusals.
	refusalsEvery = time.Minute
)

// errTooManyTokens refuses a token unseen.
var errTooManyTokens = errors.New("too many join requests with unknown tokens; try again in some seconds, or ask another peer")

// refusals bounds the join requests that may be refused, by source and in all,
// and counts those that were, for one line of the log a minute.
type refusals struct {
	log   *slog.Logger
	rates *admission.Rates

	mu    sync.Mutex
	count int       // since the last line
	said  time.Time // of the last line
}

// allow returns an error if a source, or all together, ask too often.
func (r *refusals) allow(source netip.Prefix) error {
	if wait, _ := r.rates.Take(source); wait > 0 {
		return errTooManyTokens
	}
	return nil
}

// note counts a refusal and logs the newest once a minute.
func (r *refusals) note(source netip.Prefix, name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if now := time.Now(); r.said.IsZero() || now.Sub(r.said) >= refusalsEvery {
		r.log.Warn("join refused", "peer", fmt.Sprintf("%.64s", name), "from", source, "repeated", r.count, "err", err)
		r.said, r.count = now, 0
	}
}
