package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
)

// Bounds of the documents that ramdisks send.
const (
	maxDocument   = 8 << 20   // bytes of one
	maxDocuments  = 128 << 20 // bytes of all that are held at once
	maxThrownAway = 64 << 20  // bytes of one that is too large
	firstPiece    = 64 << 10  // room before anything came, whatever is announced

	// bodyTimeout is how long a document may take to come in.
	bodyTimeout = 60 * time.Second
)

// bodies reads documents into memory and counts what they hold there, so that
// many ramdisks, or one that lies, cannot take all of it. It may be used
// concurrently.
type bodies struct {
	timeout time.Duration
	held    atomic.Int64 // bytes
}

// read returns the body of a request. release gives its room back; it is never
// nil and must be called when the document is not needed any more.
func (b *bodies) read(c echo.Context) (body []byte, release func(), err error) {
	return b.readOf(c, nil)
}

// readOf is read for a sender that may hold so much and no more; nil may hold
// as much as all.
func (b *bodies) readOf(c echo.Context, sender *source) (body []byte, release func(), err error) {
	mine := &room{all: &b.held, sender: sender}
	r := c.Request()
	// A recorder of a test has no deadlines, and needs none.
	conn := http.NewResponseController(c.Response())
	if err := conn.SetReadDeadline(time.Now().Add(b.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, mine.release, fmt.Errorf("set a deadline for the body: %w", err)
	}
	if r.ContentLength > maxDocument {
		return nil, mine.release, tooLarge(r)
	}
	body, err = mine.fill(http.MaxBytesReader(c.Response(), r.Body, maxDocument), r.ContentLength)
	if err != nil {
		return nil, mine.release, bodyError(r, err)
	}
	// What follows is the work on it, which is no business of the deadline.
	if err := conn.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, mine.release, fmt.Errorf("lift the deadline of the body: %w", err)
	}
	return body, mine.release, nil
}

// room is what one body holds of what all may. It belongs to one goroutine.
type room struct {
	all    *atomic.Int64
	sender *source // nil: not counted
	bytes  int64
}

var errNoRoom = errors.New("too many bodies are held")

func (m *room) take(bytes int) error {
	m.bytes += int64(bytes)
	full := m.all.Add(int64(bytes)) > maxDocuments
	if m.sender != nil && m.sender.held.Add(int64(bytes)) > maxOfSource || full {
		return errNoRoom
	}
	return nil
}

func (m *room) release() {
	m.all.Add(-m.bytes)
	if m.sender != nil {
		m.sender.held.Add(-m.bytes)
	}
	m.bytes = 0
}

// fill reads to the end, with room for no more than twice what came.
func (m *room) fill(in io.Reader, announced int64) ([]byte, error) {
	var body []byte
	for {
		if len(body) == cap(body) {
			size := nextPiece(cap(body), announced)
			if err := m.take(size - cap(body)); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := in.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// nextPiece says how much room a body gets after it has filled what it had:
// twice that, and never more than it may need.
func nextPiece(have int, announced int64) int {
	most := int64(maxDocument)
	if announced >= 0 {
		most = announced
	}
	return int(min(int64(max(2*have, firstPiece)), most+1)) // 1 more sees the end without growing
}

// tooLarge refuses a body. Most clients send all of it before they look for an
// answer, so the rest is taken and thrown away, unless the client waits to be
// told to send it.
func tooLarge(r *http.Request) error {
	if r.Header.Get("Expect") == "" {
		_, err := io.CopyN(io.Discard, r.Body, maxThrownAway)
		if err != nil && !errors.Is(err, io.EOF) {
			return refuse(http.StatusRequestEntityTooLarge, "The body has more than %d bytes (8 MiB) and ended early: %v", maxDocument, err)
		}
	}
	return refuse(http.StatusRequestEntityTooLarge, "The body has more than %d bytes (8 MiB)", maxDocument)
}

// bodyError makes an answer of a body that did not come in. One that is slow
// may be sent again; a ramdisk takes 4xx for final.
func bodyError(r *http.Request, err error) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge(r)
	case errors.Is(err, errNoRoom):
		return refuse(http.StatusServiceUnavailable, "Too many callbacks are coming in at once; try again")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusServiceUnavailable, "The body did not come in in time; send it again")
	default:
		return refuse(http.StatusBadRequest, badRequest+"the body ended early: %v", err)
	}
}
