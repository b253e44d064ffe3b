package api

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/httpserver"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/pace"
)

// How a callback uses the time of its ramdisk, which repeats itself five times and gives up
// at once when an answer takes 30 s (docs/design.md#budgets).
const (
	// callbackAnswer is when a callback is answered at the latest, after it arrived.
	callbackAnswer = 27 * time.Second
	// spreadWaits is by how much waits that end in vain differ: those who came together
	// must not come again together, and leave the peer idle in between.
	spreadWaits = 2 * time.Second
	// beginningOfDocument is how much of a document is read to learn whose it is: a ramdisk
	// sends its interfaces first.
	beginningOfDocument = 4 << 10
)

// callback takes a ramdisk's document and answers when it has been processed.
func (i *Inspector) callback(callers *callbackRates, documents bodies) echo.HandlerFunc {
	return i.called(callers, documents, func(ctx context.Context, c echo.Context, body []byte) error {
		node, err := i.Service.Continue(ctx, body)
		if err != nil {
			return err
		}
		return replyValue(c, http.StatusOK, map[string]any{"uuid": node})
	})
}

// documentWork answers for a document that came in.
type documentWork func(ctx context.Context, c echo.Context, body []byte) error

// called takes a machine's document in and has work answer. The machine of a node under
// introspection comes before those that are not known, and has a share of its own wherever
// it calls from; the others share what their source may have.
func (i *Inspector) called(callers *callbackRates, documents bodies, work documentWork) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		by := strangerOf(r, i.Proxies)
		by.until = waitEnd(r)
		body, release, err := documents.receive(c.Response(), r, by, MaxDocument, func(in *arriving, by *sender) error {
			if err := i.recognise(r, in, by); err != nil || by.known {
				return err
			}
			return callers.pass(c, by)
		})
		defer release()
		if by.unread && !by.known && by.source.IsValid() {
			callers.GiveBack(by.source) // its repeat counts
		}
		if err == nil {
			ctx, cancel := context.WithDeadline(r.Context(), httpserver.Arrived(r.Context()).Add(callbackAnswer))
			defer cancel()
			err = work(ctx, c, body)
		}
		var said *inspector.Refusal
		late := errors.As(err, &said) && said.Status == http.StatusServiceUnavailable
		if late && c.Response().Header().Get(echo.HeaderRetryAfter) == "" {
			again(c, documents.Waiting())
		}
		return err
	}
}

// recognise reads the beginning of a document and looks for the node that it is expected of.
func (i *Inspector) recognise(r *http.Request, in *arriving, by *sender) error {
	if i.Callbacks.Expected == nil || r.ContentLength > MaxDocument {
		return nil
	}
	beginning, err := in.beginning(beginningOfDocument)
	if err != nil {
		return bodyError(r, err)
	}
	node, ok := i.Callbacks.Expected(beginning)
	if !ok {
		return nil
	}
	by.source, by.known = admission.Named("node "+node), true
	if in.place != nil {
		in.place.Vouch(by.source)
	}
	return nil
}

// waitEnd is until when a callback waits to be worked on.
func waitEnd(r *http.Request) time.Time {
	early := time.Duration(lot(r)%uint32(spreadWaits/time.Millisecond)) * time.Millisecond
	return httpserver.Arrived(r.Context()).Add(admission.CallbackWait - early)
}

// again tells a caller when to come again: the later the more wait, and not all at once.
func again(c echo.Context, waiting int) {
	const perSecond, most = 64, 10 // documents that a slow peer takes; seconds
	seconds := 1 + lot(c.Request())%uint32(min(2+waiting/perSecond, most))
	c.Response().Header().Set(echo.HeaderRetryAfter, strconv.FormatUint(uint64(seconds), 10))
}

// lot is a number that differs between requests.
func lot(r *http.Request) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(logs.RequestOf(r.Context()).ID)) // a hash takes everything
	return h.Sum32()
}

// CallbackLimit bounds the callbacks of one source: an IPv4 address, or a /64,
// which is what one machine has of IPv6. Sources on this host are not counted:
// no machine boots here, and a proxy that does not say whom it speaks for speaks
// for all of them.
type CallbackLimit struct {
	Rate  int // a second, for as long as it likes; 0: no limit
	Burst int // at once
	// Refused, if set, is called for each callback that must come again.
	Refused func()
	// Expected finds the node under introspection whose document begins so; nil: none does.
	Expected func(beginning []byte) (node string, ok bool)
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
	return &callbackRates{admission.NewRates(admission.Pace{Rate: float64(l.Rate), Burst: l.Burst}, admission.Pace{}),
		refused, logs.Limit(logger)}
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
		r.GiveBack(by.source) // it sent nothing that was read
		return context.Cause(ctx)
	}
	return nil
}
