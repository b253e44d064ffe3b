package membership

import (
	"errors"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of join tokens.
const (
	// MaxJoinTokens is the greatest number of join tokens at one time.
	MaxJoinTokens = 100
	// MinJoinTTL and MaxJoinTTL bound how long one may be used.
	MinJoinTTL = time.Second
	// MaxJoinTTL is a month: longer needs are for configuration management.
	MaxJoinTTL = 31 * 24 * time.Hour
)

// JoinToken is a permission to join that was handed out. The state holds the
// hash of its secret only. It may be used any number of times until it
// expires, in cluster time, or is revoked (docs/design.md#join).
type JoinToken struct {
	ID          string     `cbor:"1,keyasint"`
	Hash        [32]byte   `cbor:"2,keyasint"` // SHA-256 of the secret
	Expires     entry.Time `cbor:"3,keyasint"`
	CreatedWall int64      `cbor:"4,keyasint,omitempty"` // Unix ms; for display
}

// JoinTokens returns the join tokens that may still be used, by ID.
func (s *Tables) JoinTokens() []JoinToken { return table.List(s.joins.All()) }

// AddJoinToken records a join token.
type AddJoinToken struct {
	ID   string        `cbor:"1,keyasint"`
	Hash [32]byte      `cbor:"2,keyasint"`
	TTL  time.Duration `cbor:"3,keyasint"`
}

// Validate implements Command.
func (c AddJoinToken) Validate() error {
	if c.Hash == [32]byte{} {
		return errors.New("no hash of the secret")
	}
	if c.TTL < MinJoinTTL || c.TTL > MaxJoinTTL {
		return fmt.Errorf("a join token lasts %v to %v, not %v", MinJoinTTL, MaxJoinTTL, c.TTL)
	}
	return valid.ID("token ID", c.ID)
}

// Apply implements entry.Change.
func (c AddJoinToken) Apply(t Txn) entry.Result {
	if t.joins.Has([]byte(c.ID)) {
		return entry.Refuse(entry.Conflict, "join token %s exists already", c.ID)
	}
	if t.joins.Size() >= MaxJoinTokens {
		return entry.Refuse(entry.Refused, "%d join tokens exist, which is the most; revoke one", MaxJoinTokens)
	}
	j := JoinToken{ID: c.ID, Hash: c.Hash, Expires: t.Now().Add(c.TTL), CreatedWall: t.Header.WallMillis}
	t.putToken(j)
	return entry.Done()
}

// RevokeJoinToken ends a join token before its time.
type RevokeJoinToken struct {
	ID string `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c RevokeJoinToken) Validate() error { return valid.ID("token ID", c.ID) }

// Apply implements entry.Change.
func (c RevokeJoinToken) Apply(t Txn) entry.Result {
	j, ok := t.joins.Get([]byte(c.ID))
	if !ok {
		return entry.Refuse(entry.NotFound, "join token %s does not exist; it may have expired", c.ID)
	}
	t.dropToken(j)
	return entry.Done()
}

func (t Txn) putToken(j JoinToken) {
	t.joins.Put([]byte(j.ID), j)
	t.Arm(j.Expires, dueJoin, []byte(j.ID))
}

func (t Txn) dropToken(j JoinToken) {
	t.joins.Drop([]byte(j.ID))
	t.Disarm(j.Expires, dueJoin, []byte(j.ID))
}

// UseJoinToken admits a member if the token is valid at the moment the command
// is applied: a check before the proposal could be overtaken by a revocation.
// Using one twice for the same member changes nothing.
type UseJoinToken struct {
	Hash   [32]byte `cbor:"1,keyasint"`
	Member Member   `cbor:"2,keyasint"`
}

// Validate implements Command.
func (c UseJoinToken) Validate() error { return c.Member.Validate() }

// UnknownToken refuses a join token; who asks before the log does says the same.
const UnknownToken = "the join token is not known: it expired, was revoked, or is of another cluster"

// Apply implements entry.Change.
func (c UseJoinToken) Apply(t Txn) entry.Result {
	for _, j := range t.joins.All() { // at most MaxJoinTokens
		if j.Hash == c.Hash {
			return t.succeed(c.Member)
		}
	}
	return entry.Refuse(entry.Expired, UnknownToken)
}

type dumpedJoin struct {
	ID      string `json:"id"`
	Expires string `json:"expires"`
}
