package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Bounds of the documents that ramdisks send. How long one may take to come in is
// for the server to bound (httpserver.Limits).
const (
	MaxDocument   = 8 << 20              // bytes of one
	maxDocuments  = 96 << 20             // bytes of all that are held at once
	maxLarge      = maxDocuments * 3 / 4 // bytes of those above maxSmall: the rest is for small ones
	maxSmall      = 256 << 10            // bytes of an ordinary document
	maxOfSource   = maxDocuments / 2     // bytes of one source: what it sends slowly leaves as much to all others
	maxThrownAway = 64 << 20             // bytes of one that is too large
)

// bodies reads documents into memory and counts what they hold there, so that
// many ramdisks, or one that lies, cannot take all of it: documents that stall keep
// no others out. It may be used concurrently.
type bodies struct{ *admission.Memory }

func newBodies() bodies {
	return bodies{admission.NewMemory(admission.Bytes{
		All: maxDocuments, Share: maxOfSource, Large: maxLarge,
		Small: maxSmall + 1, // 1 more sees the end without growing
	})}
}

// read returns the body of a request. release gives its room back; it is never
// nil and must be called when the document is not needed any more.
func (b bodies) read(c echo.Context) (body []byte, release func(), err error) {
	return b.readOf(c, netip.Prefix{})
}

// readOf is read for a source that has a share; the zero Prefix has none and may hold
// as much as all.
func (b bodies) readOf(c echo.Context, source netip.Prefix) (body []byte, release func(), err error) {
	r := c.Request()
	place := admission.Of(r.Context())
	if place == nil {
		return b.fill(c, source)
	}
	r.Body = &metered{r.Body, r.Context(), place}
	release = func() {}
	err = place.Aside(r.Context(), func() (err error) {
		body, release, err = b.fill(c, source)
		return err
	})
	return body, release, err
}

// fill takes a body in.
func (b bodies) fill(c echo.Context, source netip.Prefix) (body []byte, release func(), err error) {
	r := c.Request()
	if r.ContentLength > MaxDocument {
		return nil, func() {}, tooLarge(r)
	}
	room := b.Enter(source, func() {
		// Wakes the reader; a connection that is closed has woken it.
		_ = http.NewResponseController(c.Response()).SetReadDeadline(time.Unix(1, 0))
	})
	body, err = room.Fill(http.MaxBytesReader(c.Response(), r.Body, MaxDocument), r.ContentLength, MaxDocument)
	room.Settle()
	if err != nil {
		return nil, room.Release, BodyError(r, err)
	}
	return body, room.Release, nil
}

// metered is a body whose bytes count as work, also those that are thrown away.
type metered struct {
	io.ReadCloser
	ctx context.Context // of the request
	by  *admission.Place
}

// Read implements io.Reader.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	if busy := m.by.Take(m.ctx, n); busy != nil && err == nil {
		return n, busy
	}
	return n, err
}

// tooLarge refuses a body. Most clients send all of it before they look for an
// answer, so the rest is taken and thrown away, unless the client waits to be
// told to send it.
func tooLarge(r *http.Request) error {
	if r.Header.Get("Expect") == "" {
		_, err := io.CopyN(io.Discard, r.Body, maxThrownAway)
		if err != nil && !errors.Is(err, io.EOF) {
			return refuse(http.StatusRequestEntityTooLarge, "The body has more than %d bytes (8 MiB) and ended early: %v", MaxDocument, err)
		}
	}
	return refuse(http.StatusRequestEntityTooLarge, "The body has more than %d bytes (8 MiB)", MaxDocument)
}

// BodyError makes an answer of a body that did not come in. One that is slow
// may be sent again; a ramdisk takes 4xx for final.
func BodyError(r *http.Request, err error) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge(r)
	case errors.Is(err, admission.ErrBusy):
		return refuse(http.StatusServiceUnavailable, "Too many callbacks are coming in at once; try again")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusServiceUnavailable, "The body did not come in in time; send it again")
	default:
		return refuse(http.StatusBadRequest, badRequest+"the body ended early: %v", err)
	}
}
