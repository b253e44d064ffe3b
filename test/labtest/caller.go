//go:build e2e

package labtest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/testenv"
)

// answerTimeout is how long a caller waits for one answer before it asks again, over
// a connection of its own.
const answerTimeout = 250 * time.Millisecond

// caller asks the API for one thing again and again, as a client that wants an
// answer does, and remembers for how long it got none.
type caller struct {
	name, addr, path string
	http             *http.Client
	end              func() // stops it; it may be called twice

	mu      sync.Mutex
	asked   int
	refused int
	vain    time.Time // when the first question that got no answer was asked
	gaps    []span    // from the first question that was in vain to the next answer
	last    string    // why the newest one was in vain
}

// calls begins to ask http://addr/path so often, until the test ends. With fresh,
// every question has a connection of its own.
func calls(t testing.TB, name, addr, path string, every time.Duration, fresh bool) *caller {
	c := &caller{
		name: name, addr: addr, path: path,
		http: &http.Client{Timeout: answerTimeout, Transport: &http.Transport{DisableKeepAlives: fresh}},
	}
	c.end = repeated(t, every, c.next)
	return c
}

// next asks once more.
func (c *caller) next() {
	began := time.Now()
	err := c.ask()
	c.mu.Lock()
	c.asked++
	switch {
	case err != nil && c.vain.IsZero():
		c.vain = began
		fallthrough
	case err != nil:
		c.refused++
		c.last = err.Error()
	case !c.vain.IsZero():
		c.gaps = append(c.gaps, span{c.vain, time.Now()})
		c.vain = time.Time{}
	}
	c.mu.Unlock()
	if err != nil {
		c.http.CloseIdleConnections() // the other end may be another host by now
	}
}

func (c *caller) ask() error {
	reply, err := httpapi.Ask(c.http, c.addr, http.MethodGet, c.path, nil, nil)
	if err == nil && reply.Status >= http.StatusInternalServerError {
		err = fmt.Errorf("%d", reply.Status)
	}
	return err
}

// verdict tells what the caller met, and records the longest gap but those that are
// excused.
func (c *caller) verdict(t testing.TB, goal time.Duration, excused func(began time.Time) bool) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var longest time.Duration
	for _, gap := range c.gaps {
		if !excused(gap.from) {
			longest = max(longest, gap.to.Sub(gap.from))
		}
	}
	t.Logf("%s: %d questions, %d in vain, the last for: %s", c.name, c.asked, c.refused, c.last)
	testenv.Took(t, "labtest.api_gap_"+strings.ReplaceAll(c.name, " ", "_"), longest, goal)
}
