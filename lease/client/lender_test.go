package client_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// lender lends leases as contract (b) says, by the wall clock of the test.
type lender struct {
	mu      sync.Mutex
	leases  map[string]*grant
	answers map[string]*grant // by request
	last    uint64            // token
}

type grant struct {
	holder string
	token  uint64
	ttl    time.Duration
	ends   time.Time
}

func newLender() *lender {
	return &lender{leases: make(map[string]*grant), answers: make(map[string]*grant), last: 100}
}

func (g *grant) live() bool { return g != nil && time.Now().Before(g.ends) }

// ServeHTTP implements http.Handler.
func (l *lender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
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
		l.acquire(w, name, said.Request, grant{said.Holder, 0, time.Duration(said.TTL) * time.Millisecond, time.Time{}}, said.Takeover)
	case now == nil:
		http.Error(w, "no such lease", http.StatusNotFound)
	case said.Token != fmt.Sprint(now.token) && now.live():
		held(w, now)
	case renewal && !now.live(), said.Token != fmt.Sprint(now.token):
		http.Error(w, "it is over", http.StatusGone)
	case renewal:
		now.ends = time.Now().Add(now.ttl)
		answer(w, http.StatusOK, name, now)
	default:
		now.ends = time.Now()
		w.WriteHeader(http.StatusNoContent)
	}
}

func (l *lender) acquire(w http.ResponseWriter, name, request string, g grant, takeover bool) {
	if had := l.answers[request]; had != nil {
		switch {
		case had.token == 0:
			held(w, l.leases[name])
		case had.live():
			answer(w, http.StatusOK, name, had)
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
	fmt.Fprintf(w, `{"name":%q,"holder":%q,"token":"%d","ttl_ms":%d,"remaining_ms":%d}`, name, g.holder, g.token, g.ttl.Milliseconds(), time.Until(g.ends).Milliseconds())
}
