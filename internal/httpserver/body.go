package httpserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// paced gives the body of each request the time that l allows it, whether next
// reads it or not: net/http reads what a handler has left before it answers. A
// read past that fails with os.ErrDeadlineExceeded. When the body is over there is
// no deadline, since the caller waits for its answer then.
func (l Limits) paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			b := &body{ReadCloser: r.Body, limits: l, deadline: http.NewResponseController(w).SetReadDeadline}
			if err := b.begin(); err != nil {
				panic(http.ErrAbortHandler) // the connection is closed
			}
			r.Body = b
		}
		next.ServeHTTP(w, r)
	})
}

// body is a request's body that must make progress. It belongs to one goroutine.
type body struct {
	io.ReadCloser
	limits   Limits
	deadline func(time.Time) error
	read     bool      // by the handler
	end      time.Time // of the whole body
	due      time.Time // of the present step
	left     time.Time // when the last read returned
	missing  int       // bytes of the present step that have not arrived
}

// begin gives the whole body its time, and the first step.
func (b *body) begin() error {
	b.end = time.Now().Add(b.limits.Body)
	return b.step()
}

// step gives the next step its time.
func (b *body) step() error {
	b.missing = b.limits.BodyStep
	b.due = time.Now().Add(b.limits.Stall)
	if b.end.Before(b.due) {
		b.due = b.end
	}
	return b.set(b.due)
}

// pause is from when on a time for which nothing was read is given back.
const pause = 100 * time.Millisecond

// resume gives back the time for which nothing was read.
func (b *body) resume() error {
	gap := time.Since(b.left)
	if gap < pause {
		return nil // most reads: a deadline for each would cost as much as they
	}
	b.end, b.due = b.end.Add(gap), b.due.Add(gap)
	return b.set(b.due)
}

func (b *body) set(t time.Time) error {
	if err := b.deadline(t); err != nil {
		return fmt.Errorf("set a deadline for the body: %w", err)
	}
	return nil
}

// Read implements io.Reader. The time counts while something is read: what the handler
// does before or meanwhile, such as to ask who calls or to wait for room, is not the body's
// delay.
func (b *body) Read(p []byte) (n int, err error) {
	begin := b.resume
	if !b.read {
		b.read, begin = true, b.begin
	}
	if err := begin(); err != nil {
		return 0, err
	}
	n, err = b.ReadCloser.Read(p)
	b.left = time.Now()
	b.missing -= n
	var failed error
	switch {
	case errors.Is(err, io.EOF):
		failed = b.set(time.Time{})
	case err == nil && b.missing <= 0:
		failed = b.step()
	}
	if failed != nil {
		return n, failed
	}
	return n, err // io.EOF as it is: readers compare it
}
