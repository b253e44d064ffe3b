package elector

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// limits are the bounds of callers. They ask on the host itself, as a rule, and
// need no more than a line: a slower caller is no poller.
func limits() httpserver.Limits {
	return httpserver.Limits{
		Header: 2 * time.Second, Idle: 30 * time.Second, // pollers ask every 5 s
		Body: 3 * time.Second, Stall: 3 * time.Second, BodyStep: 1,
		Write: 5 * time.Second,
		Conns: 256, Share: 64, Spare: 512,
	}
}

// Headers of an answer that names a leader. The body is what leader-elector's was.
const (
	HeaderTerm  = "X-Leader-Term"   // of raft; not for a lease
	HeaderToken = "X-Fencing-Token" // a later leader's is greater
	HeaderAge   = "X-Leader-Age-Ms" // since before the quorum was asked
)

// EndpointOptions are the parts of an endpoint.
type EndpointOptions struct {
	// Election is what ?verbose=1 calls the election.
	Election string
	Source   Source
	Now      Clock
	// Answered, if set, is called for each answer, with whether it named a leader.
	Answered func(named bool)
	// Admission is shared by all servers of a process; nil: one of its own.
	Admission *admission.Controller
	// Failed is that of httpserver.Options; it may be nil.
	Failed func(error)
	Logger *slog.Logger
}

// Class is that of every request to an endpoint.
const Class = admission.Probe

// Endpoint answers every request alike.
type Endpoint struct{ o EndpointOptions }

// NewEndpoint returns an endpoint.
func NewEndpoint(o EndpointOptions) *Endpoint {
	if o.Answered == nil {
		o.Answered = func(bool) {}
	}
	if o.Admission == nil {
		o.Admission = admission.NewController()
	}
	return &Endpoint{o}
}

// answer is the body. Its first field alone is what clients of leader-elector know.
type answer struct {
	Name string `json:"name"`
	*more
}

// more is what ?verbose=1 adds.
type more struct {
	Election string `json:"election"`
	Token    string `json:"token,omitempty"`
	Term     uint64 `json:"term,omitempty"`
	AgeMs    int64  `json:"age_ms"`
	ValidMs  int64  `json:"valid_ms"` // for how long this answer may be said
}

// ServeHTTP answers 200 to any method and path; a HEAD without the body. Of too many
// requests at once some are answered 503.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	place, err := e.o.Admission.Admit(r.Context(), Class,
		admission.Caller{Source: admission.RemoteSource(r.RemoteAddr), Known: true})
	if err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer place.Leave()
	now := e.o.Now()
	claim := e.o.Source.Claim().At(now)
	body, err := json.Marshal(e.answer(claim, now, r.URL.Query().Get("verbose") == "1"))
	if err != nil { // of strings and numbers: it cannot
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body))) // of a HEAD, too
	h.Set("Cache-Control", "no-store")
	if claim.Name != "" {
		h.Set(HeaderToken, claim.Token.String())
		h.Set(HeaderAge, strconv.FormatInt((now-claim.Asked).Milliseconds(), 10))
	}
	if claim.Term != 0 {
		h.Set(HeaderTerm, strconv.FormatUint(claim.Term, 10))
	}
	e.o.Answered(claim.Name != "")
	until(r.Context(), claim)
	// A client that does not read the answer has none.
	_, _ = w.Write(body)
}

func (e *Endpoint) answer(claim Claim, now time.Duration, verbose bool) answer {
	if !verbose {
		return answer{Name: claim.Name}
	}
	said := &more{Election: e.o.Election, Term: claim.Term}
	if claim.Name != "" {
		said.Token, said.AgeMs, said.ValidMs = claim.Token.String(), (now - claim.Asked).Milliseconds(),
			(claim.Until - now).Milliseconds()
	}
	return answer{claim.Name, said}
}

// Server is the endpoint as a server, for a listener made by Timed. Callers on this
// host have room of their own, without a share for each source. identified gives each
// request its ID before the endpoint sees it, as api.Identified does.
func (e *Endpoint) Server(identified func(http.Handler) http.Handler) *httpserver.Server {
	return httpserver.New(httpserver.Options{
		Handler: identified(e), Limits: limits(), Trusted: netip.Addr.IsLoopback, OptionsToHandler: true,
		Begin: func(ctx context.Context, from netip.Addr) error {
			return e.o.Admission.Connect(ctx, admission.SourceOf(from), from.IsLoopback(), admission.InClear)
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		Failed:      e.o.Failed, Logger: e.o.Logger,
	})
}
