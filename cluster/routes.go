package cluster

import (
	"encoding/binary"
	"fmt"
	"net/http"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Routes are what a peer answers on the peers' port. Each has a class, by which
// requests are admitted; a peer is one source, wherever it calls from. All routes are
// there before the first request.
type Routes struct {
	log     Served
	by      *admission.Controller
	mux     *http.ServeMux
	classes map[string]admission.Class // by pattern
}

// NewRoutes returns the routes by which other peers use the log.
func NewRoutes(log Served, by *admission.Controller) *Routes {
	r := &Routes{log: log, by: by, mux: http.NewServeMux(), classes: make(map[string]admission.Class)}
	r.Members(admission.Request, "POST "+pathPropose, serveProposals(log))
	r.Members(admission.Request, "GET "+pathReadIndex, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		index, err := log.ConfirmedIndex(req.Context())
		reply(w, binary.BigEndian.AppendUint64(nil, index), err)
	}))
	return r
}

// ServeHTTP implements http.Handler.
func (r *Routes) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.mux.ServeHTTP(w, req) }

// Classes returns the class of each pattern, but for those of operators.
func (r *Routes) Classes() map[string]admission.Class { return r.classes }

// Members has h answer members at a pattern, in a place of a class.
func (r *Routes) Members(class admission.Class, pattern string, h http.Handler) {
	r.classes[pattern] = class
	h = membersOnly(r.log, h)
	r.mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
		id, err := caller(req)
		if err != nil || id.Role != pki.RolePeer { // it takes no place of a peer's
			h.ServeHTTP(w, req)
			return
		}
		place, err := r.by.Admit(req.Context(), class,
			admission.Caller{Port: admission.Peers, Source: admission.Named(id.Peer)})
		if err != nil {
			http.Error(w, err.Error(), statusBusy)
			return
		}
		defer place.Leave()
		h.ServeHTTP(w, req)
	})
}

// Joiners has h answer hosts that want to be members at a path. It takes their places
// itself: not before it has read what they say and knows their tokens. To read that costs
// as much as a handshake, and waits as one does, since a connection carries any number.
func (r *Routes) Joiners(path string, h http.Handler) {
	pattern := "POST " + path
	r.classes[pattern] = admission.Stranger
	r.mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
		if err := r.by.Connect(req.Context(), admission.RemoteSource(req.RemoteAddr), false, admission.ByTLS); err != nil {
			refuseJoin(w, http.StatusServiceUnavailable, fmt.Errorf("too many join requests at once; try again: %w", err))
			return
		}
		h.ServeHTTP(w, req)
	})
}

// Operators has h answer operators below a path, whom the cluster's CA vouches for. Its
// routes have classes of their own.
func (r *Routes) Operators(path string, h http.Handler) {
	r.mux.Handle(path, operatorsOnly(r.log.View, h))
}
