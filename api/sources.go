package api

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
)

// CallbackLimit bounds the callbacks of one source: an IPv4 address, or a /64,
// which is what one machine has of IPv6. Sources on this host are not counted:
// no machine boots here, and a proxy that does not say whom it speaks for speaks
// for all of them.
type CallbackLimit struct {
	Rate  int // a second, for as long as it likes; 0: no limit
	Burst int // at once
	// Refused, if set, is called for each callback that must come again.
	Refused func()
}

// callbackRates bounds callbacks by where they come from.
type callbackRates struct {
	*admission.Rates
	refused func() // of each callback that must come again
	logger  *slog.Logger
}

func newCallbackRates(l CallbackLimit, logger *slog.Logger) *callbackRates {
	refused := l.Refused
	if refused == nil {
		refused = func() {}
	}
	return &callbackRates{admission.NewRates(admission.Pace{Rate: float64(l.Rate), Burst: l.Burst}, admission.Pace{}), refused, logs.Limit(logger)}
}

// pass keeps a source from taking what all others need. A source that sends too often
// waits; one that would wait for too long gets 503 with the time to repeat: never a 4xx,
// which the ramdisk takes for final, so that its machine would fail for what its neighbours
// did.
func (r *callbackRates) pass(c echo.Context, by *sender) error {
	if !by.source.IsValid() {
		return nil
	}
	wait, ok := r.Take(by.source, time.Until(by.until))
	if !ok {
		r.logger.Warn("callback rate limit exceeded, answering 503", "source", by.source)
		r.refused()
		hush(c) // the log has a line of the source; one of each callback would fill it
		c.Response().Header().Set(echo.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		return refuse(http.StatusServiceUnavailable, "Too many callbacks are coming from %s; try again", by.source)
	}
	if ctx := c.Request().Context(); wait > 0 && !pace.Wait(ctx, wait) {
		return context.Cause(ctx)
	}
	return nil
}
