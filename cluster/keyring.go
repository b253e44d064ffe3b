package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Values of the gossip keys of one peer.
const (
	ringLook = time.Second // how often a peer looks whether the log has other keys
	// confirmLimit bounds one attempt to confirm the keys. It is short because no newer
	// keys of the log are installed meanwhile: the others may speak under them already.
	confirmLimit = time.Second
	maxRing      = 8 // keys in a file; the log never asks for more than two
)

// Ring is the gossip keys of a peer. It is a secret.
type Ring struct {
	// Changed is the token of the log's entry that asked for these keys, zero
	// for those of the foundation. A ring never goes back to a lower one.
	Changed fencing.Token `json:"changed"`
	// Keys are accepted; the first is the one that is spoken under.
	Keys [][]byte `json:"keys"`
}

// RingOf returns the ring that the log asks for.
func RingOf(v fsm.View) Ring {
	return Ring{Changed: v.GossipRotation().Changed, Keys: v.GossipKeys()}
}

// String hides the keys from every print verb.
func (Ring) String() string { return "(redacted)" }

// GoString hides the keys from %#v.
func (Ring) GoString() string { return "cluster.Ring{redacted}" }

// ParseRing reads what Encode wrote.
func ParseRing(text []byte) (r Ring, err error) {
	if isKeySize(len(text)) {
		return Ring{Keys: [][]byte{text}}, nil
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, errors.New("gossip key must be 16, 24 or 32 bytes, or a list of such keys") // the error would quote the key
	}
	if len(r.Keys) == 0 || len(r.Keys) > maxRing {
		return r, fmt.Errorf("list has %d gossip keys, want 1 to %d", len(r.Keys), maxRing)
	}
	for _, key := range r.Keys {
		if !isKeySize(len(key)) {
			return r, fmt.Errorf("gossip key has %d bytes, want 16, 24 or 32", len(key))
		}
	}
	return r, nil
}

func isKeySize(n int) bool { return n == 16 || n == 24 || n == 32 }

// Encode returns the ring as the bytes of a file. The key of a foundation stands
// as it is, so that a binary which knows of no rotation reads it.
func (r Ring) Encode() ([]byte, error) {
	if r.Changed.IsZero() && len(r.Keys) == 1 {
		return r.Keys[0], nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the gossip keys: %w", err)
	}
	return text, nil
}

// RingOptions are the parts of a RingFollower.
type RingOptions struct {
	Peer   string // server ID
	Now    Ring   // what this peer has
	View   func() fsm.View
	Do     Doer
	Put    []func(Ring) error // makes the ring this peer's, in this order: durable before it is used
	Logger *slog.Logger
}

// RingFollower makes the gossip keys of one peer those that the log asks for,
// and tells the log so. A peer that was down during a rotation has the new keys
// as soon as it has the log: gossip carries no entries.
type RingFollower struct {
	o    RingOptions
	have Ring
}

// NewRingFollower starts from the keys that the peer has.
func NewRingFollower(o RingOptions) *RingFollower { return &RingFollower{o: o, have: o.Now} }

// Run follows the log until ctx ends. What fails is tried again.
func (f *RingFollower) Run(ctx context.Context) {
	failing := false
	for range pace.Every(ctx, ringLook) {
		err := f.followRing(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			f.o.Logger.Warn("install gossip keys failed, retrying", "err", err)
		}
		failing = err != nil
	}
}

func (f *RingFollower) followRing(ctx context.Context) error {
	view := f.o.View()
	if view.ClusterID() == "" {
		return nil // the log has yet to come
	}
	// A snapshot that was just loaded may be older than what this peer has.
	if wanted := RingOf(view); wanted.Changed > f.have.Changed {
		for _, put := range f.o.Put {
			if err := put(wanted); err != nil {
				return err
			}
		}
		f.have = wanted
		f.o.Logger.Info("gossip keys installed", "stage", view.GossipRotation().Stage, "token", wanted.Changed)
	}
	return f.confirm(ctx, view.GossipRotation())
}

// confirm tells the log that this peer has the keys, unless it knows.
func (f *RingFollower) confirm(ctx context.Context, r membership.GossipRotation) error {
	if r.Stage == membership.GossipSettled || r.Changed != f.have.Changed || slices.Contains(r.Confirmed, f.o.Peer) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, confirmLimit)
	defer cancel()
	res, err := f.o.Do.Do(ctx, "", membership.ConfirmGossipKeys{Peer: f.o.Peer, Changed: r.Changed})
	if err != nil {
		return err
	}
	if res.Code == fsm.Conflict {
		return nil // the rotation went on meanwhile
	}
	return res.Err()
}
