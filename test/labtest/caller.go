//go:build e2e

package labtest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
)

// answerTimeout is how long a caller waits for one answer before it asks again, over
// a connection of its own.
const answerTimeout = 250 * time.Millisecond

// caller asks the API for one thing again and again, as a client that wants an
// answer does, and remembers for how long it got none.
type caller struct {
	name string
	url  string
	http *http.Client
	stop chan struct{}
	done sync.WaitGroup

	mu      sync.Mutex
	asked   int
	refused int
	gaps    []span // from the first question that was in vain to the next answer
	last    string // why the newest one was in vain
}

// calls begins to ask http://addr/path so often, until the test ends. With fresh,
// every question has a connection of its own.
func calls(t testing.TB, name, addr, path string, every time.Duration, fresh bool) *caller {
	c := &caller{
		name: name, url: "http://" + addr + path, stop: make(chan struct{}),
		http: &http.Client{Timeout: answerTimeout, Transport: &http.Transport{DisableKeepAlives: fresh}},
	}
	c.done.Go(func() { c.run(every) })
	t.Cleanup(c.end)
	return c
}

// end stops it. It may be called twice, by the test's goroutine.
func (c *caller) end() {
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	c.done.Wait()
	c.http.CloseIdleConnections()
}

func (c *caller) run(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var vain time.Time // when the first question that got no answer was asked
	for {
		select {
		case <-tick.C:
		case <-c.stop:
			return
		}
		began := time.Now()
		err := c.ask()
		c.mu.Lock()
		c.asked++
		switch {
		case err != nil && vain.IsZero():
			vain = began
			fallthrough
		case err != nil:
			c.refused++
			c.last = err.Error()
		case !vain.IsZero():
			c.gaps = append(c.gaps, span{vain, time.Now()})
			vain = time.Time{}
		}
		c.mu.Unlock()
		if err != nil {
			c.http.CloseIdleConnections() // the other end may be another host by now
		}
	}
}

func (c *caller) ask() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("%d", resp.StatusCode)
	}
	return nil
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
