package logs

import (
	"context"
	"log/slog"
)

// Request names the API request that lines of the log belong to.
type Request struct {
	ID     string // in the answer, and in every line that belongs to the request
	Global string // of the OpenStack operation that it is a part of; "" for none
}

// The keys of a request in the log.
const (
	requestID       = "request_id"
	globalRequestID = "global_request_id"
)

// requestKey finds the Request of a context.
type requestKey struct{}

// WithRequest returns a context whose lines belong to r.
func WithRequest(ctx context.Context, r Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// RequestOf returns the request that ctx belongs to; the zero value for none.
func RequestOf(ctx context.Context) Request {
	r, _ := ctx.Value(requestKey{}).(Request)
	return r
}

// Attrs returns the keys of r in the log: request_id, and global_request_id
// where there is one.
func (r Request) Attrs() []slog.Attr {
	var out []slog.Attr
	if r.ID != "" {
		out = append(out, slog.String(requestID, r.ID))
	}
	if r.Global != "" {
		out = append(out, slog.String(globalRequestID, r.Global))
	}
	return out
}

// Requests returns a handler that adds the keys of the request to the lines
// that are logged with its context.
func Requests(next slog.Handler) slog.Handler { return requests{next} }

type requests struct{ slog.Handler }

// Handle implements slog.Handler.
func (h requests) Handle(ctx context.Context, r slog.Record) error {
	if as := RequestOf(ctx).Attrs(); as != nil {
		r = r.Clone()
		r.AddAttrs(as...)
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h requests) WithAttrs(as []slog.Attr) slog.Handler { return requests{h.Handler.WithAttrs(as)} }

// WithGroup implements slog.Handler.
func (h requests) WithGroup(name string) slog.Handler { return requests{h.Handler.WithGroup(name)} }
