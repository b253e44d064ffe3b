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
	MaxDocument  = 8 << 20               // bytes of one
	maxDocuments = 96 << 20              // bytes of all that are held at once
	maxLarge     = maxDocuments * 3 / 4  // bytes of those above maxSmall: the rest is for small ones
	maxSmall     = 256 << 10             // bytes of an ordinary document
	maxOfSource  = 3 * (MaxDocument + 1) // bytes of one source
	maxOfMachine = 2 * (MaxDocument + 1) // bytes of one machine that is expected: a document, and its repeat
	// maxStrange is bytes of those above maxSmall whose machines are not expected: one source
	// leaves as much to all others, and all of them leave a third to those that are expected.
	maxStrange    = 2 * maxOfSource
	maxWaiting    = 4096     // that wait for room, of each kind: as many as there are connections
	maxThrownAway = 64 << 20 // bytes of one that is too large
)

// bodies reads documents into memory and counts what they hold there, so that
// many ramdisks, or one that lies, cannot take all of it: documents that stall keep
// no others out. It may be used concurrently.
type bodies struct{ *admission.Memory }

func newBodies() bodies {
	return bodies{admission.NewMemory(admission.Bytes{
		All: maxDocuments, Share: maxOfSource, Large: maxLarge,
		Small: maxSmall + 1, // 1 more sees the end without growing
		Known: maxOfMachine, Strange: maxStrange, Waiting: maxWaiting,
	})}
}

// sender is whose body comes in.
type sender struct {
	source netip.Prefix // has a share; the zero Prefix has none and may hold as much as all
	known  bool         // the source is one machine that is expected, or who calls was proved
	until  time.Time    // it waits for room no longer; zero: admission.CallbackWait
	unread bool         // there was no room: nothing but the beginning was read
}

// read returns the body of a request whose caller was proved. release gives its room back;
// it is never nil and must be called when the body is not needed any more.
func (b bodies) read(c echo.Context) (body []byte, release func(), err error) {
	return b.receive(c, &sender{known: true}, nil)
}

// receive is read for any sender. The place of the request is another's meanwhile. before,
// if set, is called first; it may look at the beginning of the body, and say whose it is.
func (b bodies) receive(
	c echo.Context, by *sender, before func(*arriving, *sender) error,
) (body []byte, release func(), err error) {
	r := c.Request()
	in := &arriving{ReadCloser: r.Body, ctx: r.Context(), place: admission.Of(r.Context())}
	r.Body = in
	release = func() {}
	take := func() (err error) {
		if before != nil {
			if err := before(in, by); err != nil {
				return err
			}
		}
		body, release, err = b.fill(c, in, by)
		return err
	}
	if in.place != nil {
		err = in.place.Aside(r.Context(), take)
	} else {
		err = take()
	}
	return body, release, err
}

// fill waits for room and takes a body in. While it waits the body is unread: it costs its
// connection and no more.
func (b bodies) fill(c echo.Context, in *arriving, by *sender) (body []byte, release func(), err error) {
	r := c.Request()
	bytes := int64(MaxDocument)
	if r.ContentLength > MaxDocument {
		return nil, func() {}, tooLarge(r)
	}
	if r.ContentLength >= 0 {
		bytes = r.ContentLength
	}
	wait := admission.CallbackWait
	if !by.until.IsZero() {
		wait = time.Until(by.until)
	}
	lose := func() {
		// Wakes the reader; a connection that is closed has woken it.
		_ = http.NewResponseController(c.Response()).SetReadDeadline(time.Unix(1, 0))
	}
	in.room, err = b.Reserve(r.Context(), by.source, by.known, bytes+1, wait, lose) // 1 more sees the end without growing
	if err != nil {
		by.unread = true
		return nil, func() {}, BodyError(r, err)
	}
	body, err = in.room.Fill(http.MaxBytesReader(c.Response(), in, MaxDocument), r.ContentLength, MaxDocument)
	in.room.Settle()
	if err != nil {
		return nil, in.room.Release, BodyError(r, err)
	}
	return body, in.room.Release, nil
}

// arriving is a body whose bytes count as work, also those that are thrown away.
type arriving struct {
	io.ReadCloser
	ctx   context.Context  // of the request
	place *admission.Place // nil: they do not count
	room  *admission.Room  // that it fills; nil before
	head  []byte           // was read, and is read again
	end   error            // comes after head; nil: the rest of the body
}

// beginning reads up to so many bytes of the body, which are read again.
func (a *arriving) beginning(bytes int) ([]byte, error) {
	head := make([]byte, bytes)
	for len(a.head) < bytes && a.end == nil {
		n, err := a.next(head[len(a.head):])
		a.head, a.end = head[:len(a.head)+n], err
	}
	if errors.Is(a.end, io.EOF) {
		return a.head, nil
	}
	return a.head, a.end
}

// Read implements io.Reader.
func (a *arriving) Read(p []byte) (int, error) {
	if len(a.head) > 0 {
		n := copy(p, a.head)
		a.head = a.head[n:]
		return n, nil
	}
	if a.end != nil {
		return 0, a.end
	}
	return a.next(p)
}

func (a *arriving) next(p []byte) (n int, err error) {
	if a.room != nil {
		n, err = a.room.Read(a.ReadCloser, p)
	} else {
		n, err = a.ReadCloser.Read(p)
	}
	if a.place == nil {
		return n, err
	}
	if busy := a.place.Take(a.ctx, n); busy != nil && err == nil {
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
