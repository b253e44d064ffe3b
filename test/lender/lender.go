// Package lender is a peer in memory that lends leases as docs/contract.md#leases says, for the
// tests of those who hold them. It has no quorum to lose and no log.
package lender

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Lender is an http.Handler with the calls of a lease. Its clock is the test's.
type Lender struct {
	mu      sync.Mutex
	leases  map[string]*grant
	answers map[string]*grant // by request
	last    uint64            // token
	asked   int
}

type grant struct {
	holder string
	token  uint64
	ttl    time.Duration
	ends   time.Time
}

// New returns a lender whose first token is 107.
func New() *Lender {
	return &Lender{leases: make(map[string]*grant), answers: make(map[string]*grant), last: 100}
}

func (g *grant) live() bool { return g != nil && time.Now().Before(g.ends) }

// ServeHTTP implements http.Handler.
func (l *Lender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	var said struct {
		Holder   string `json:"holder"`
		TTL      int64  `json:"ttl_ms"`
		Request  string `json:"request_id"`
		Takeover bool   `json:"takeover"`
		Token    string `json:"token"`
	}
	if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name, renewal := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/v1/leases/"), "/renew")
	now := l.leases[name]
	switch {
	case r.Method == http.MethodPut:
		l.acquire(w, name, said.Request, grant{said.Holder, 0, time.Duration(said.TTL) * time.Millisecond, time.Time{}},
			said.Takeover)
	case now == nil:
		http.Error(w, "no such lease", http.StatusNotFound)
	case said.Token != fmt.Sprint(now.token) && now.live():
		held(w, now)
	case renewal && !now.live():
		http.Error(w, "it is over", http.StatusGone)
	case renewal:
		now.ends = time.Now().Add(now.ttl)
		answer(w, http.StatusOK, name, now)
	default:
		if now.live() {
			now.ends = time.Now()
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (l *Lender) acquire(w http.ResponseWriter, name, request string, g grant, takeover bool) {
	if had := l.answers[request]; had != nil {
		switch {
		case had.token == 0:
			held(w, l.leases[name])
		case had.live():
			late := *had
			late.ends = time.Now().Add(had.ttl) // as of a peer whose cluster time has stood still since
			answer(w, http.StatusOK, name, &late)
		default:
			http.Error(w, "it was yours, and is over", http.StatusGone)
		}
		return
	}
	l.answers[request] = &g
	if now := l.leases[name]; now.live() && (now.holder != g.holder || !takeover) {
		held(w, now)
		return
	}
	l.last += 7
	g.token, g.ends = l.last, time.Now().Add(g.ttl)
	l.leases[name] = &g
	answer(w, http.StatusCreated, name, &g)
}

func held(w http.ResponseWriter, g *grant) {
	w.WriteHeader(http.StatusConflict)
	fmt.Fprintf(w, `{"error":{"message":"it is held by %s"}}`, g.holder)
}

func answer(w http.ResponseWriter, status int, name string, g *grant) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"name":%q,"holder":%q,"token":"%d","ttl_ms":%d,"remaining_ms":%d}`, name, g.holder, g.token,
		g.ttl.Milliseconds(), time.Until(g.ends).Milliseconds())
}

// Newest is the newest token of all.
func (l *Lender) Newest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Ends is when a lease ends, or ended.
func (l *Lender) Ends(name string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.leases[name]; g != nil {
		return g.ends
	}
	return time.Time{}
}

// Extend has a lease end later, or be held again.
func (l *Lender) Extend(name string, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases[name].ends = time.Now().Add(d)
}

// Grant grants a lease to somebody, whoever has it.
func (l *Lender) Grant(name, holder string, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last += 7
	l.leases[name] = &grant{holder, l.last, ttl, time.Now().Add(ttl)}
}

// Questions is how many questions were asked so far.
func (l *Lender) Questions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}
