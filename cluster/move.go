package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// maxMoveBody bounds what a peer says of its address, in bytes.
const maxMoveBody = 4 << 10

// Moved is what a peer says of itself when it is dialled elsewhere than the
// others think.
type Moved struct {
	Address string `json:"address"` // host:port of the peers' port
	Gossip  string `json:"gossip"`
}

// MoveHandler takes the word of a peer, which its certificate proves, for where
// it is dialled. Any peer can: one whose address has changed hears of no leader,
// since the leader dials where it was.
func MoveHandler(do Doer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, ok := callerAs(w, r, pki.RolePeer, "a peer's certificate is needed")
		if !ok {
			return
		}
		var to Moved
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxMoveBody)).Decode(&to); err != nil {
			http.Error(w, "the new address cannot be read: "+err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), admitLimit)
		defer cancel()
		command := membership.MoveMember{Peer: id.Peer, Address: to.Address, Gossip: to.Gossip}
		if err := command.Validate(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var refused *fsm.Error
		switch err := commit(ctx, do, command); {
		case errors.As(err, &refused):
			http.Error(w, err.Error(), http.StatusConflict)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}
