package api

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// admitted runs h in a place of a class, for as long as its caller waits.
func admitted(by *admission.Controller, class admission.Class, callerOf func(echo.Context) admission.Caller,
	h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		place, err := by.Admit(r.Context(), class, callerOf(c))
		if err != nil {
			return err
		}
		defer place.Leave()
		c.SetRequest(r.WithContext(admission.With(r.Context(), place)))
		return h(c)
	}
}

// Placed runs h in a place of a class, for a caller who showed no credentials.
func Placed(by *admission.Controller, class admission.Class, proxies []netip.Prefix, r *http.Request,
	h func(*http.Request) error) error {
	place, err := by.Admit(r.Context(), class, admission.Caller{Source: senderSource(r, proxies)})
	if err != nil {
		return err
	}
	defer place.Leave()
	return h(r.WithContext(admission.With(r.Context(), place)))
}

// Visited has by count each request that next admits to no place, so that what is refused
// at the door is bounded like all else. proxies is asked at each request.
func Visited(by *admission.Controller, port admission.Port, proxies func() []netip.Prefix,
	next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, ended := by.Visit(r.Context(), admission.Caller{Port: port, Source: senderSource(r, proxies())})
		next.ServeHTTP(w, r.WithContext(ctx))
		ended()
	})
}

// senderSource is the source of a request, the zero Prefix for one without an address.
func senderSource(r *http.Request, proxies []netip.Prefix) netip.Prefix {
	sender, _ := senderOf(r, proxies)
	return admission.SourceOf(sender)
}

// smallAnswer is how much of an answer a connection's buffers take.
const smallAnswer = 4 << 10

// Deliver takes room for an answer of so many bytes until the request ends, and gives
// the place of its handler to another. It refuses the answer when callers have left
// too many untaken.
func Deliver(ctx context.Context, bytes int) error {
	place := admission.Of(ctx)
	if place == nil || bytes <= smallAnswer {
		return nil
	}
	return place.Answer(bytes)
}

// waits has a request go on in another class, since it waits for what may come late.
func waits(ctx context.Context, class admission.Class) error {
	if place := admission.Of(ctx); place != nil {
		return place.Switch(ctx, class)
	}
	return nil
}

// paced has a request that lasts wait for its turn to do some work and to send some bytes.
func paced(ctx context.Context, work time.Duration, bytes int) error {
	if place := admission.Of(ctx); place != nil {
		return place.Pay(ctx, work, bytes)
	}
	return nil
}
