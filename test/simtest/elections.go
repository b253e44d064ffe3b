package simtest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/lease/elector"
)

// electorBound is how long a name is said: that of raft.timing normal.
const electorBound = 500 * time.Millisecond

// clockRate is by how much the clocks of two hosts differ in rate, in parts of a
// million: what time daemons allow themselves.
const clockRate = 500

// sinceBoot is the host's clock that nobody sets: hosts were booted at different
// times, and their clocks do not run at one rate.
func (p *Peer) sinceBoot() time.Duration {
	var number time.Duration
	for _, b := range []byte(p.Name) {
		number += time.Duration(b)
	}
	passed := time.Since(epoch)
	return number*time.Hour + passed + passed/1_000_000*clockRate*(number%3-1)
}

// epoch is when a bubble's time begins, or before.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// said is an answer of a leader endpoint, as a program beside it sees it.
type said struct {
	Name    string `json:"name"`
	Token   string `json:"token"`
	AgeMs   int64  `json:"age_ms"`
	ValidMs int64  `json:"valid_ms"`
	at      time.Time
}

// elects asks the endpoint of a peer about one election, from the same host: nothing
// listens where no process runs, and who asks one that is stopped waits.
func (p *Peer) elects(n int) (s said, err error) {
	proc := p.run.Load()
	if proc == nil {
		return s, ErrRefused
	}
	if !proc.gate.Wait(proc.port.ctx.Done()) {
		return s, ErrReset
	}
	e := elector.NewEndpoint(
		elector.EndpointOptions{Source: proc.core.Elector.Elections()[n], Now: p.sinceBoot,
			Logger: slog.New(slog.DiscardHandler)})
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?verbose=1", nil))
	if !proc.gate.Wait(proc.port.ctx.Done()) || proc.port.ctx.Err() != nil {
		return s, ErrReset
	}
	s.at = time.Now()
	return s, json.Unmarshal(w.Body.Bytes(), &s)
}

// until is when an answer is over.
func (s said) until() time.Time { return s.at.Add(time.Duration(s.ValidMs) * time.Millisecond) }

// heard is everything that was ever answered about one election.
type heard struct {
	c *Cluster

	mu    sync.Mutex
	names map[string]string // by token
	live  []said            // what may still be said
	count int
	named int
}

// note compares an answer with all others that are alive while it is.
func (h *heard) note(by string, s said) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	if s.Name == "" {
		return
	}
	h.named++
	if h.names == nil {
		h.names = make(map[string]string)
	}
	if other, known := h.names[s.Token]; known && other != s.Name {
		h.c.Oracle.broken("elector-one-name-a-token: %s names %s under token %s, which was said to be %s", by, s.Name,
			s.Token, other)
	}
	h.names[s.Token] = s.Name
	alive := h.live[:0]
	for _, o := range h.live {
		if !o.until().After(s.at) {
			continue
		}
		alive = append(alive, o)
		if o.Name != s.Name || o.Token != s.Token {
			h.c.Oracle.broken(
				"elector-exclusive: %s names %s (token %s) while an answer that names %s (token %s) is alive for another %v",
				by, s.Name, s.Token, o.Name, o.Token, o.until().Sub(s.at))
		}
	}
	h.live = append(alive, s)
}

// named checks that no leader was elected so long before an answer that the one it
// names cannot have been confirmed within the bound.
func (o *Oracle) named(by string, s said, bound time.Duration) {
	if s.Name == "" {
		return
	}
	o.mu.Lock()
	var ours uint64
	for _, r := range o.leaderships {
		if r.token.String() == s.Token && r.peer != s.Name {
			o.mu.Unlock()
			o.broken("elector-true: %s names %s under the token %s, which is %s's", by, s.Name, s.Token, r.peer)
			return
		}
		if r.token.String() == s.Token {
			ours = uint64(r.token)
		}
	}
	var later *tokenOf
	for i, r := range o.leaderships {
		if ours != 0 && uint64(r.token) > ours && s.at.Sub(r.at) > bound {
			later = &o.leaderships[i]
			break
		}
	}
	o.mu.Unlock()
	if later != nil {
		o.broken("elector-confirmed: %s names %s (token %s), but %s began to lead %v before", by, s.Name, s.Token, later.peer,
			s.at.Sub(later.at))
	}
}

// poller is Kuryr's: it asks every pollerPause, compares with its own name, and takes
// whatever is not an answer for nobody.
type poller struct {
	name string // of its host
	ask  func() (string, error)

	mu     sync.Mutex
	since  time.Time // it became active; zero while it is not
	spells []spell
}

// spell is a time for which a poller was active.
type spell struct{ from, to time.Time }

// pollerPause is Kuryr's.
const pollerPause = 5 * time.Second

// run polls until done is closed.
func (p *poller) run(done <-chan struct{}, first time.Duration) {
	next := time.NewTimer(first)
	defer next.Stop()
	defer p.act(false)
	for {
		select {
		case <-next.C:
		case <-done:
			return
		}
		next.Reset(pollerPause)
		name, err := p.ask()
		p.act(err == nil && name == p.name)
	}
}

// act begins or ends a spell.
func (p *poller) act(active bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch now := time.Now(); {
	case active && p.since.IsZero():
		p.since = now
	case !active && !p.since.IsZero():
		p.spells = append(p.spells, spell{p.since, now})
		p.since = time.Time{}
	}
}

// together is the longest that two pollers were active at once, and how long any was.
func together(pollers []*poller) (longest, active time.Duration, text string) {
	for i, a := range pollers {
		for _, s := range a.spells {
			active += s.to.Sub(s.from)
		}
		for _, b := range pollers[i+1:] {
			for _, s := range a.spells {
				for _, o := range b.spells {
					from, to := later(s.from, o.from), earlier(s.to, o.to)
					if both := to.Sub(from); both > longest {
						longest, text = both, fmt.Sprintf("%s and %s from %s", a.name, b.name, from.Format("15:04:05.000"))
					}
				}
			}
		}
	}
	return longest, active, text
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
