package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// MaxDocument is the greatest length of a ramdisk's document, in bytes.
const MaxDocument = admission.MaxBody

const maxThrownAway = 64 << 20 // bytes of a body that is too large

// bodies reads bodies into memory and counts what they hold there, so that
// many ramdisks, or one that lies, cannot take all of it: documents that stall keep
// no others out. It may be used concurrently.
type bodies struct{ *admission.Memory }

// sender is whose body comes in.
type sender struct {
	source netip.Prefix // has a share; the zero Prefix has none and may hold as much as all
	known  bool         // the source is one machine that is expected, or who calls was proved
	until  time.Time    // it waits for room no longer; zero: admission.CallbackWait
	unread bool         // there was no room: nothing but the beginning was read
}

// readBody returns the body of a request whose caller was proved, of at most so many bytes.
// release gives its room back; it is never nil and must be called when the body is not
// needed any more.
func (b bodies) readBody(c echo.Context, most int64) (body []byte, release func(), err error) {
	return b.receive(c.Response(), c.Request(), &sender{known: true}, most, nil)
}

// StrangersBody is ControlBody for a request whose caller has shown no credentials yet, and
// which has no place.
func StrangersBody(
	by *admission.Controller, proxies []netip.Prefix, w http.ResponseWriter, r *http.Request, most int64,
) (body []byte, release func(), err error) {
	return bodies{by.Bodies()}.receive(w, r, strangerOf(r, proxies), most, nil)
}

// ControlBody takes in the body of a request to the control interface, of at most so many
// bytes. Until there is room it is unread, and while it comes in its place is another's.
// release is that of all bodies: never nil, and to be called.
func ControlBody(c echo.Context, most int64) (body []byte, release func(), err error) {
	from := controlCaller(c).Source
	by := admission.Of(c.Request().Context()).Bodies()
	return bodies{by}.receive(c.Response(), c.Request(), &sender{source: from, known: true}, most, nil)
}

// strangerOf is the sender of a request whose caller has proved nothing. A caller on this
// host has no share: it may be a proxy.
func strangerOf(r *http.Request, proxies []netip.Prefix) *sender {
	by := new(sender)
	if from, _ := senderOf(r, proxies); !from.IsLoopback() {
		by.source = admission.SourceOf(from)
	}
	return by
}

// receive is read for any sender. The place of the request, if it has one, is another's
// meanwhile. before, if set, is called first; it may look at the beginning of the body, and
// say whose it is.
func (b bodies) receive(
	w http.ResponseWriter, r *http.Request, by *sender, most int64, before func(*arriving, *sender) error,
) (body []byte, release func(), err error) {
	in := &arriving{ReadCloser: r.Body, ctx: r.Context(), place: admission.Of(r.Context())}
	r.Body = in
	release = func() {}
	take := func() (err error) {
		if before != nil {
			if err := before(in, by); err != nil {
				return err
			}
		}
		body, release, err = b.fill(w, r, in, by, most)
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
func (b bodies) fill(
	w http.ResponseWriter, r *http.Request, in *arriving, by *sender, most int64,
) (body []byte, release func(), err error) {
	bytes := most
	if r.ContentLength > most {
		return nil, func() {}, tooLarge(r, most)
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
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	}
	in.room, err = b.Reserve(r.Context(), by.source, by.known, bytes+1, wait, lose) // 1 more sees the end without growing
	if err != nil {
		by.unread = true
		return nil, func() {}, bodyError(r, err)
	}
	body, err = in.room.Fill(http.MaxBytesReader(w, in, most), r.ContentLength, most)
	in.room.Settle()
	if err != nil {
		return nil, in.room.Release, bodyError(r, err)
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
func tooLarge(r *http.Request, most int64) error {
	size := fmt.Sprintf("%d bytes (%d KiB)", most, most>>10)
	if most%(1<<20) == 0 {
		size = fmt.Sprintf("%d bytes (%d MiB)", most, most>>20)
	}
	if r.Header.Get("Expect") == "" {
		_, err := io.CopyN(io.Discard, r.Body, maxThrownAway)
		if err != nil && !errors.Is(err, io.EOF) {
			return refuse(http.StatusRequestEntityTooLarge, "The body has more than %s and ended early: %v", size, err)
		}
	}
	return refuse(http.StatusRequestEntityTooLarge, "The body has more than %s", size)
}

// bodyError makes an answer of a body that did not come in. One that is slow
// may be sent again; a ramdisk takes 4xx for final.
func bodyError(r *http.Request, err error) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge(r, over.Limit)
	case errors.Is(err, admission.ErrBusy):
		return refuse(http.StatusServiceUnavailable, "Too many bodies are coming in at once; try again")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusServiceUnavailable, "The body did not come in in time; send it again")
	default:
		return refuse(http.StatusBadRequest, badRequest+"the body ended early: %v", err)
	}
}
