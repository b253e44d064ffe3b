package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Bounds of a question to the introspection API. A peer waits up to 7 s for a
// leader before it answers 503, and asks Ironic before it accepts a start.
const (
	dialLimit     = 3 * time.Second  // a host that is dead refuses nothing: it is silent
	readTry       = 12 * time.Second // one try of a read at one server, body included
	actTry        = 35 * time.Second // the same of what changes something
	readPatience  = 40 * time.Second // all tries of a read together
	actPatience   = 90 * time.Second // the same of what changes something
	deadPatience  = 3 * time.Second  // while nothing listens on any server
	firstPause    = 250 * time.Millisecond
	lastPause     = 4 * time.Second // pauses between rounds double up to it
	maxRetryAfter = 5 * time.Second // of a server's wish that is heeded
	maxAnswer     = 32 << 20        // bytes: a page of 1,000 introspections, or a document with what hooks added
	maxRefusal    = 64 << 10        // bytes
)

// webClient speaks the wire contract of the introspection API to the peers of
// a cluster, any of which will do: a server that cannot be reached or lacks a
// leader is passed over for the next. It may be used concurrently.
type webClient struct {
	servers        []*url.URL
	user, password string // no credentials are sent without a user
	http           *http.Client
	random         io.Reader
	current        atomic.Int32 // the server asked first: the one that answered last
	heard          atomic.Int64 // answers and refusals so far
}

// request is one question, in whatever number of tries.
type request struct {
	method string
	path   []string // segments below /v1/introspection, not escaped
	query  url.Values
	id     string // X-Request-Id: the tries of one question share it, in every peer's log
	try    time.Duration
	// patience bounds the tries and pauses together. A question that changes
	// something ends earlier, with the first try that may have arrived.
	patience time.Duration
}

func reading(query url.Values, path ...string) request {
	return request{method: http.MethodGet, path: path, query: query, id: uuid.NewString(), try: readTry, patience: readPatience}
}

func acting(query url.Values, path ...string) request {
	return request{method: http.MethodPost, path: path, query: query, id: uuid.NewString(), try: actTry, patience: actPatience}
}

func (r request) changes() bool { return r.method != http.MethodGet }

// answer is what a server said to a request that it carried out.
type answer struct {
	body []byte
	date time.Time // of the server's clock; of ours when it did not say
}

// ask puts the request to one server after another, in rounds with pauses
// between them, until one answers. A refusal is an *api.Error. When nobody
// answers, the error is a *Failure around a *silence.
func (c *webClient) ask(ctx context.Context, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	var before *silence
	for began, round := time.Now(), 0; ; round++ {
		a, err := c.round(ctx, r)
		var none *silence
		if !errors.As(err, &none) {
			return a, err
		}
		final := r.changes() && none.arrived()
		if !final && ctx.Err() != nil && before != nil {
			return a, before.failure(r.changes()) // which tells of all servers
		}
		if final || none.hopeless() || none.dead() && time.Since(began) > deadPatience || !c.pause(ctx, round, none.after()) {
			return a, none.failure(r.changes())
		}
		before = none
	}
}

// round asks each server once, first the one that answered last.
func (c *webClient) round(ctx context.Context, r request) (answer, error) {
	first, n := int(c.current.Load()), len(c.servers)
	var none silence
	for i := range n {
		at := (first + i) % n
		a, err := c.once(ctx, c.servers[at], r)
		var m *miss
		if !errors.As(err, &m) {
			c.current.Store(int32(at))
			c.heard.Add(1)
			return a, err
		}
		none.misses = append(none.misses, m)
		c.current.CompareAndSwap(int32(at), int32((at+1)%n))
		if ctx.Err() != nil || m.arrived && r.changes() {
			break
		}
	}
	return answer{}, &none
}

// forEach calls do for 0 … n-1, callsAtOnce at a time, and waits for all. Once
// a do came to nothing because no server answered anybody anything meanwhile,
// it ends the context of the others with that error as the cause: a thousand
// nodes do not wait for a dead cluster a thousand times.
func (c *webClient) forEach(ctx context.Context, n int, do func(ctx context.Context, i int) error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	next := make(chan int) // closed here, when all were handed out
	var working sync.WaitGroup
	for range min(n, callsAtOnce) {
		working.Go(func() {
			for i := range next {
				heard := c.heard.Load()
				var none *silence
				if err := do(ctx, i); errors.As(err, &none) && c.heard.Load() == heard {
					giveUp(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	working.Wait()
}

// pause waits before the next round, longer each time and never as long as
// anybody else. It returns false, at once, when there is no time for it.
func (c *webClient) pause(ctx context.Context, round int, wish time.Duration) bool {
	d := max(spread(c.random, min(firstPause<<min(round, 10), lastPause)), min(wish, maxRetryAfter))
	if end, bounded := ctx.Deadline(); bounded && time.Until(end) <= d {
		return false
	}
	return wait(ctx, d)
}

// wait returns whether ctx let it wait for d.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// spread returns a duration between d/2 and 3d/2, so that many commands that
// failed together do not come back together.
func spread(random io.Reader, d time.Duration) time.Duration {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil || d <= 0 {
		return d
	}
	return d/2 + time.Duration(binary.BigEndian.Uint64(b[:])%uint64(d))
}

// once asks one server. An error other than a *miss is its last word.
func (c *webClient) once(ctx context.Context, server *url.URL, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.try)
	defer cancel()
	ctx, sent := watchSending(ctx)
	target := server.JoinPath(append([]string{"v1", "introspection"}, escaped(r.path)...)...)
	target.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), nil)
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("X-Request-Id", r.id)
	if c.user != "" {
		req.SetBasicAuth(c.user, c.password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, &miss{server: server, err: unwrapURL(err), arrived: sent.Load()}
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return answer{}, refused(server, resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, &miss{server: server, err: fmt.Errorf("read the answer: %w", err), arrived: true}
	case len(body) > maxAnswer:
		return answer{}, fmt.Errorf("%s: the answer is longer than %d MiB", server, maxAnswer>>20)
	}
	return answer{body: body, date: dateOf(resp)}, nil
}

// escaped prepares path segments for URL.JoinPath, which takes them escaped.
func escaped(path []string) []string {
	out := make([]string, len(path))
	for i, segment := range path {
		out[i] = url.PathEscape(segment)
	}
	return out
}

// unwrapURL takes the method and URL off an error of the HTTP client: both are
// told already.
func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func dateOf(resp *http.Response) time.Time {
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		return t
	}
	return time.Now()
}
