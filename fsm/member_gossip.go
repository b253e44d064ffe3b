package fsm

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

var gossipDomain = domain{
	Verbs: []entry.Verb[*txn]{
		entry.NewVerb(114, "rotate gossip key", applyRotateGossipKey).From(2),
		entry.NewVerb(115, "confirm gossip keys", applyConfirmGossipKeys).From(2),
		entry.NewVerb(116, "advance gossip keys", applyAdvanceGossipKeys).ByLeader().From(2),
	},
	Sections: []entry.Section[*txn]{
		entry.Seldom('G', "gossip keys", func(d *txn) *gossip { return &d.gossip }).Shown(func(t *txn) any { return t.gossip.rotation() }),
	},
	Check: checkGossip,
}

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
	Since     Time     // of the stage
	Confirmed []string // server IDs, in order, that have the keys of the stage
}

// gossip is what the log knows of the gossip keys besides the one in use, which
// stands with the cluster's other secrets: joiners are given that one.
type gossip struct {
	Stage     GossipStage   `cbor:"1,keyasint,omitempty"`
	Other     []byte        `cbor:"2,keyasint,omitempty"` // the next key while adding, the last one while using
	Changed   fencing.Token `cbor:"3,keyasint,omitempty"`
	Since     Time          `cbor:"4,keyasint,omitempty"`
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

func applyRotateGossipKey(t *txn, c RotateGossipKey) Result {
	if t.gossip.Stage != GossipSettled {
		return entry.Refuse(Conflict, "a rotation of the gossip key is under way, at '%v' for %v", t.gossip.Stage, t.Now().Sub(t.gossip.Since))
	}
	if bytes.Equal(c.Key, t.Cluster.GossipKey) {
		return entry.Refuse(Conflict, "that is the gossip key already")
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

func applyConfirmGossipKeys(t *txn, c ConfirmGossipKeys) Result {
	if !t.peers.members.Has([]byte(c.Peer)) {
		return entry.Refuse(NotFound, "peer %s is not a member of this cluster", c.Peer)
	}
	if t.gossip.Stage == GossipSettled || t.gossip.Changed != c.Changed {
		return entry.Refuse(Conflict, "the gossip keys of token %v are not those that are waited for", c.Changed)
	}
	var confirmed []string // of members alone, which bounds it
	for _, m := range t.peers.members.All() {
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

func applyAdvanceGossipKeys(t *txn, c AdvanceGossipKeys) Result {
	g := t.gossip
	if g.Stage == GossipSettled || g.Changed != c.Changed {
		return entry.Refuse(Conflict, "the gossip keys of token %v are not those that are waited for", c.Changed)
	}
	if missing := t.gossipMissing(); len(missing) > 0 && t.Now() < g.Since.Add(GossipStepTimeout) {
		return entry.Refuse(Refused, "peers that live have not got the gossip keys of stage '%v' yet: %s", g.Stage, strings.Join(missing, ", "))
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

// gossipMissing names the members that live and have not confirmed the stage.
func (d *data) gossipMissing() (names []string) {
	if d.gossip.Stage == GossipSettled {
		return nil
	}
	for _, m := range d.peers.members.All() {
		if d.peers.sessionOf.Has([]byte(m.ID)) && !slices.Contains(d.gossip.Confirmed, m.ID) {
			names = append(names, m.Name)
		}
	}
	return names
}

// GossipRotation returns how the rotation of the gossip key stands.
func (v View) GossipRotation() GossipRotation { return v.data.gossip.rotation() }

// rotation leaves the keys out.
func (g gossip) rotation() GossipRotation {
	return GossipRotation{Stage: g.Stage, Changed: g.Changed, Since: g.Since, Confirmed: slices.Clone(g.Confirmed)}
}

// GossipMissing names the members that live and have not got the keys of the
// present stage.
func (v View) GossipMissing() []string { return v.data.gossipMissing() }

// GossipKeys returns the keys that a peer accepts, first the one it speaks
// under. They are secrets.
func (v View) GossipKeys() [][]byte {
	keys := [][]byte{v.data.shared.Cluster.GossipKey}
	if other := v.data.gossip.Other; other != nil {
		keys = append(keys, other)
	}
	return keys
}

func checkGossip(d *txn, p *valid.Problems) {
	g := d.gossip
	p.Want(g.Stage <= GossipDropping, "an unknown %v", g.Stage)
	p.Want((len(g.Other) > 0) == (g.Stage == GossipAdding || g.Stage == GossipUsing), "at stage '%v' of the gossip keys there are %d bytes of another one", g.Stage, len(g.Other))
	p.Want(len(g.Other) == 0 || !bytes.Equal(g.Other, d.shared.Cluster.GossipKey), "the other gossip key is the one in use")
	p.Want(g.Stage == GossipSettled || !g.Changed.IsZero(), "a stage '%v' of the gossip keys that no entry began", g.Stage)
	p.Want(g.Stage != GossipSettled || len(g.Confirmed) == 0, "keys that no rotation waits for are confirmed by %v", g.Confirmed)
	p.Want(g.Changed <= d.shared.Granted() && g.Since >= 0 && g.Since <= d.shared.Position.Now, "the gossip keys were changed by token %v at %v, which is to come", g.Changed, g.Since)
	p.Want(slices.IsSorted(g.Confirmed) && len(slices.Compact(slices.Clone(g.Confirmed))) == len(g.Confirmed) && len(g.Confirmed) <= MaxMembers,
		"the gossip keys are confirmed by %v", g.Confirmed)
}
