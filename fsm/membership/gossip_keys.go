package membership

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// GossipKeySize is the size of every gossip key, in bytes: memberlist takes it for AES-256.
const GossipKeySize = 32

// GossipStepTimeout is how long, in cluster time, a step of a rotation waits for a
// peer that lives and does not confirm it. A late peer has the keys from the log as
// soon as it applies it, like one that was down.
const GossipStepTimeout = time.Minute

// GossipStage is how far a rotation of the gossip key has come. The numbers are
// part of the log.
type GossipStage uint8

// The stages of a rotation, in their order. At each, the peers confirm that they
// have its keys before the next one begins, so that at no time a peer sends under a
// key that another peer does not have.
const (
	GossipSettled  GossipStage = 0 // no rotation is under way
	GossipAdding   GossipStage = 1 // everybody accepts the new key too
	GossipUsing    GossipStage = 2 // everybody speaks under the new key and accepts the old one
	GossipDropping GossipStage = 3 // no peer accepts the old key any more
)

var gossipStages = [...]string{"settled", "adding", "using", "dropping"}

// String returns the stage in a word.
func (s GossipStage) String() string { return codec.NameOf(gossipStages[:], "gossip stage", uint8(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s GossipStage) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// GossipRotation is how the rotation of the gossip key stands, without the keys.
type GossipRotation struct {
	Stage GossipStage
	// Changed is the token of the entry that changed the keys last, zero while
	// they are those of the foundation. It names a set of keys.
	Changed   fencing.Token
	Since     entry.Time // of the stage
	Confirmed []string   // server IDs, in order, that have the keys of the stage
}

// gossip is what the log knows of the gossip keys besides the one in use, which
// stands with the cluster's other secrets: joiners are given that one.
type gossip struct {
	Stage     GossipStage   `cbor:"1,keyasint,omitempty"`
	Other     []byte        `cbor:"2,keyasint,omitempty"` // the next key while adding, the last one while using
	Changed   fencing.Token `cbor:"3,keyasint,omitempty"`
	Since     entry.Time    `cbor:"4,keyasint,omitempty"`
	Confirmed []string      `cbor:"5,keyasint,omitempty"`
}

// IsZero says that no rotation ever began: then nothing is written, and peers
// of older log versions read what is.
func (g gossip) IsZero() bool { return g.Changed.IsZero() }

// RotateGossipKey begins a rotation; the leader's duty carries it on.
type RotateGossipKey struct {
	Key []byte `cbor:"1,keyasint"` // GossipKeySize bytes
}

// Validate implements Command.
func (c RotateGossipKey) Validate() error {
	if len(c.Key) != GossipKeySize {
		return fmt.Errorf("gossip key has %d bytes, not %d", len(c.Key), GossipKeySize)
	}
	return nil
}

// Apply implements entry.Change.
func (c RotateGossipKey) Apply(t Txn) entry.Result {
	if t.gossip.Stage != GossipSettled {
		return entry.Refuse(entry.Conflict, "a rotation of the gossip key is under way, at '%v' for %v", t.gossip.Stage,
			t.Now().Sub(t.gossip.Since))
	}
	if bytes.Equal(c.Key, t.Cluster.GossipKey) {
		return entry.Refuse(entry.Conflict, "that is the gossip key already")
	}
	t.gossip = gossip{Stage: GossipAdding, Other: c.Key, Changed: t.Token, Since: t.Now()}
	return entry.Done()
}

// ConfirmGossipKeys is the word of a member that it has the present keys, and
// will have them after a restart.
type ConfirmGossipKeys struct {
	Peer    string        `cbor:"1,keyasint"` // server ID
	Changed fencing.Token `cbor:"2,keyasint"`
}

// Validate implements Command.
func (c ConfirmGossipKeys) Validate() error {
	if c.Changed.IsZero() {
		return errors.New("no token of the keys")
	}
	return valid.ID("server ID", c.Peer)
}

// Apply implements entry.Change.
func (c ConfirmGossipKeys) Apply(t Txn) entry.Result {
	if !t.members.Has([]byte(c.Peer)) {
		return entry.Refuse(entry.NotFound, "peer %s is not a member of this cluster", c.Peer)
	}
	if t.gossip.Stage == GossipSettled || t.gossip.Changed != c.Changed {
		return entry.Refuse(entry.Conflict, "the gossip keys of token %v are not those that are waited for", c.Changed)
	}
	var confirmed []string // of members alone, which bounds it
	for _, m := range t.members.All() {
		if m.ID == c.Peer || slices.Contains(t.gossip.Confirmed, m.ID) {
			confirmed = append(confirmed, m.ID)
		}
	}
	t.gossip.Confirmed = confirmed
	return entry.Done()
}

// AdvanceGossipKeys takes the next step of a rotation. It is refused while a
// member that lives has not confirmed the present one, for GossipStepTimeout.
type AdvanceGossipKeys struct {
	Changed fencing.Token `cbor:"1,keyasint"` // of the step that is over
}

// Validate implements Command.
func (c AdvanceGossipKeys) Validate() error {
	if c.Changed.IsZero() {
		return errors.New("no token of the keys")
	}
	return nil
}

// Apply implements entry.Change.
func (c AdvanceGossipKeys) Apply(t Txn) entry.Result {
	g := t.gossip
	if g.Stage == GossipSettled || g.Changed != c.Changed {
		return entry.Refuse(entry.Conflict, "the gossip keys of token %v are not those that are waited for", c.Changed)
	}
	if missing := t.GossipMissing(); len(missing) > 0 && t.Now() < g.Since.Add(GossipStepTimeout) {
		return entry.Refuse(entry.Refused, "peers that live have not got the gossip keys of stage '%v' yet: %s", g.Stage,
			strings.Join(missing, ", "))
	}
	next := gossip{Stage: g.Stage + 1, Changed: t.Token, Since: t.Now()}
	switch g.Stage {
	case GossipAdding:
		next.Other, t.Cluster.GossipKey = t.Cluster.GossipKey, g.Other
	case GossipDropping:
		next.Stage, next.Changed = GossipSettled, g.Changed // the keys are the same
	}
	t.gossip = next
	return entry.Done()
}

// GossipMissing names the members that live and have not got the keys of the
// present stage.
func (s *Tables) GossipMissing() (names []string) {
	if s.gossip.Stage == GossipSettled {
		return nil
	}
	for _, m := range s.members.All() {
		if s.sessionOf.Has([]byte(m.ID)) && !slices.Contains(s.gossip.Confirmed, m.ID) {
			names = append(names, m.Name)
		}
	}
	return names
}

// GossipRotation returns how the rotation of the gossip key stands.
func (s *Tables) GossipRotation() GossipRotation {
	g := s.gossip
	return GossipRotation{Stage: g.Stage, Changed: g.Changed, Since: g.Since, Confirmed: slices.Clone(g.Confirmed)}
}

// GossipKeys returns the keys that a peer accepts, first the one it speaks
// under, which stands with the cluster's other secrets. They are secrets.
func (s *Tables) GossipKeys(inUse []byte) [][]byte {
	if s.gossip.Other == nil {
		return [][]byte{inUse}
	}
	return [][]byte{inUse, s.gossip.Other}
}
