package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of join requests with tokens that this peer does not know. Each costs
// the leader a proof of its leadership, and none costs an entry of the log.
const (
	unknownPerSource = 1 // a second
	unknownBurst     = 5
	unknownInAll     = 10 // a second
	unknownInAllMost = 20
	// maxJoinSources bounds the sources that are told apart; beyond it all are
	// bounded as one.
	maxJoinSources = 256
	// refusalsEvery is the pause between two lines of the log about refusals.
	refusalsEvery = time.Minute
)

// errTooManyTokens refuses a token unseen.
var errTooManyTokens = errors.New("too many join requests with unknown tokens; try again in some seconds, or ask another peer")

// refusals bounds the join requests that may be refused, by source and in all,
// and counts those that were, for one line of the log a minute.
type refusals struct {
	log *slog.Logger

	mu      sync.Mutex
	all     *rate.Limiter
	sources map[string]*rate.Limiter // at most maxJoinSources
	count   int                      // since the last line
	said    time.Time                // of the last line
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, all: rate.NewLimiter(unknownInAll, unknownInAllMost), sources: make(map[string]*rate.Limiter)}
}

// allow returns an error if a source, or all together, ask too often.
func (r *refusals) allow(source string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	of, known := r.sources[source]
	if !known {
		if len(r.sources) >= maxJoinSources {
			r.forget(now)
		}
		of = rate.NewLimiter(unknownPerSource, unknownBurst)
		if len(r.sources) < maxJoinSources {
			r.sources[source] = of
		}
	}
	if !of.AllowN(now, 1) || !r.all.AllowN(now, 1) {
		return errTooManyTokens
	}
	return nil
}

// forget drops the sources that have asked nothing for a while; the caller holds
// the lock.
func (r *refusals) forget(now time.Time) {
	for source, of := range r.sources {
		if of.TokensAt(now) >= unknownBurst {
			delete(r.sources, source)
		}
	}
}

// note counts a refusal and logs the newest once a minute.
func (r *refusals) note(source, name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if now := time.Now(); r.said.IsZero() || now.Sub(r.said) >= refusalsEvery {
		r.log.Warn("join refused", "peer", fmt.Sprintf("%.63s", name), "from", source, "repeated", r.count, "err", err)
		r.said, r.count = now, 0
	}
}
