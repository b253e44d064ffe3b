//go:build e2e

package wiretap

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/test/testwait"
)

// Cut says where a connection is cut.
type Cut int

// What a fault can cut.
const (
	Whole   Cut = iota // nothing
	Request            // the server never hears of it
	Answer             // the server does all, the caller never learns
)

// Fault is what happens to calls that come to a tap. Zero matches every call
// and does nothing to it.
type Fault struct {
	Door, Method string // "" is any
	Path         string // regular expression, of path and query
	Body         string // a part of the request's body
	Skip, Times  int    // how many calls go by before, how many meet it (0: all)

	Hold   bool          // until lifted or the caller is gone; then all of the below
	Delay  time.Duration // before anything is passed on
	Status int           // is answered instead of passing the call on
	Answer string        // the body of that answer
	Cut    Cut
}

// Injected is a fault that is in force.
type Injected struct {
	Fault
	path   *regexp.Regexp
	lifted context.Context
	met    atomic.Int64
	held   atomic.Int64

	// Lift ends the fault; calls that are held go on.
	Lift context.CancelFunc
}

// Met returns how many calls met the fault.
func (x *Injected) Met() int { return max(0, int(x.met.Load())-x.Skip) }

// Held returns how many calls it holds at this moment.
func (x *Injected) Held() int { return int(x.held.Load()) }

// takes decides whether a call meets the fault, and counts it. The tap calls it
// for one call at a time.
func (x *Injected) takes(c *Call) bool {
	switch {
	case x.lifted.Err() != nil,
		x.Door != "" && x.Door != c.Door,
		x.Method != "" && x.Method != c.Method,
		!x.path.MatchString(c.Path),
		!bytes.Contains(c.Body, []byte(x.Body)),
		x.Times > 0 && x.Met() >= x.Times:
		return false
	}
	return x.met.Add(1) > int64(x.Skip)
}

// apply does to a call what the fault says; pass hands it to the server. A
// fault that is nil only passes it on.
func (x *Injected) apply(w http.ResponseWriter, r *http.Request, pass func(http.ResponseWriter)) {
	if x == nil {
		pass(w)
		return
	}
	x.wait(r.Context())
	switch {
	case r.Context().Err() != nil, x.Cut == Request:
		panic(http.ErrAbortHandler)
	case x.Status != 0:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(x.Status)
		_, _ = io.WriteString(w, x.Answer) // a caller that went away is its own affair
	case x.Cut == Answer:
		pass(httptest.NewRecorder())
		panic(http.ErrAbortHandler)
	default:
		pass(w)
	}
}

// wait returns when the fault lets the call go on or its caller is gone.
func (x *Injected) wait(caller context.Context) {
	if x.Hold {
		x.held.Add(1)
		select {
		case <-x.lifted.Done():
		case <-caller.Done():
		}
		x.held.Add(-1)
	}
	if x.Delay > 0 {
		ctx, cancel := context.WithCancel(caller)
		defer cancel()
		defer context.AfterFunc(x.lifted, cancel)()
		testwait.Rest(ctx, x.Delay)
	}
}
