package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/internal/logs"
)

// Bounds of join requests with tokens that this peer does not know. Each costs
// the leader a proof of its leadership, and none costs an entry of the log.
const (
	unknownPerSource = 1 // a second
	unknownBurst     = 5
	unknownInAll     = 10 // a second
	unknownInAllMost = 20
)

// errTooManyTokens refuses a token unseen.
var errTooManyTokens = errors.New(
	"too many join requests with unknown tokens; try again in some seconds, or ask another peer")

// refusals bounds the join requests that may be refused, by source and in all, and tells of
// them once a minute.
type refusals struct {
	log   *slog.Logger
	rates *admission.Rates
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{
		log: logs.LimitAt(log, logs.Pace{Every: time.Minute, Most: time.Minute, Alike: true}),
		rates: admission.NewRates(
			admission.Pace{Rate: unknownPerSource, Burst: unknownBurst},
			admission.Pace{Rate: unknownInAll, Burst: unknownInAllMost}),
	}
}

// allow returns an error if a source, or all together, ask too often.
func (r *refusals) allow(source netip.Prefix) error {
	if _, ok := r.rates.Take(source, 0); !ok {
		return errTooManyTokens
	}
	return nil
}

// countRefusal tells of a refusal.
func (r *refusals) countRefusal(source netip.Prefix, name string, err error) {
	r.log.Warn("join refused", "peer", fmt.Sprintf("%.64s", name), "from", source, "err", err)
}
