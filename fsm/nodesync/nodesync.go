// Package nodesync holds why the last synchronisation with Ironic deleted no record:
// the guard against erasing a site (docs/design.md#sync).
//
// The commands: [Suspect] and [Trust] of the leader, [Confirm] of an operator.
package nodesync

import (
	"errors"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Domain is all that the log, snapshots and Check know of it.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb(84, "suspect sync", applySuspect).ByLeader().From(3),
		entry.NewVerb(85, "confirm sync", applyConfirm).From(3),
		entry.NewVerb(86, "trust sync", applyTrust).ByLeader().From(3),
	},
	Sections: []entry.Section[Txn]{entry.Seldom('Y', "sync", func(t Txn) *Suspicion { return &t.suspicion })},
	Check:    check,
}

// Tables are the suspicion, if there is one.
type Tables struct{ suspicion Suspicion }

// Txn is one entry at work on it.
type Txn struct {
	*entry.Txn
	*Tables
}

// Bounds of a suspicion, in bytes.
const (
	// MaxReason bounds why a list is not believed.
	MaxReason = 1024

	maxDigest = 64
)

// Suspicion is why a synchronisation with Ironic deleted nothing. The zero value is
// none.
type Suspicion struct {
	Reason  string `cbor:"1,keyasint,omitempty"`
	Missing int    `cbor:"2,keyasint,omitempty"` // nodes with a record that Ironic did not list
	Known   int    `cbor:"3,keyasint,omitempty"` // nodes with a record
	// Digest names the nodes that are missing; "" when nothing can be confirmed.
	Digest string `cbor:"4,keyasint,omitempty"`
	// Since is the cluster time of the first entry that told just this.
	Since entry.Time `cbor:"5,keyasint,omitempty"`
	// Confirmed says that the nodes of Digest may be deleted.
	Confirmed bool `cbor:"6,keyasint,omitempty"`
}

// IsZero reports whether there is no suspicion.
func (s Suspicion) IsZero() bool { return s == Suspicion{} }

func (s Suspicion) validate() error {
	if s.Missing < 0 || s.Known < s.Missing {
		return errors.New("nodes are missing that are not known")
	}
	if s.Confirmed && s.Digest == "" {
		return errors.New("a list that names no nodes is confirmed")
	}
	return errors.Join(valid.Length("reason", s.Reason, 1, MaxReason), valid.Length("digest", s.Digest, 0, maxDigest))
}

// Suspect notes that a list of Ironic's nodes is not believed, and why. The same
// again changes nothing, so that its age is that of the first. Since is the entry's.
type Suspect struct {
	Suspicion Suspicion `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c Suspect) Validate() error {
	if c.Suspicion.Since != 0 {
		return errors.New("the age of a suspicion is the entry's")
	}
	return c.Suspicion.validate()
}

func applySuspect(t Txn, c Suspect) entry.Result {
	now, before := c.Suspicion, t.suspicion
	if before.Reason == now.Reason && before.Digest == now.Digest && before.Confirmed == now.Confirmed {
		return entry.Done()
	}
	now.Since = t.Now()
	t.suspicion = now
	return entry.Done()
}

// Confirm lets the leader delete the nodes that an operator was shown as missing.
// It is refused when the suspicion is another one by now.
type Confirm struct {
	Digest string `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c Confirm) Validate() error { return valid.Length("digest", c.Digest, 1, maxDigest) }

func applyConfirm(t Txn, c Confirm) entry.Result {
	if t.suspicion.Digest != c.Digest {
		return entry.Refuse(entry.Conflict,
			"Ironic's list is not the one that was shown, or cannot be confirmed: look again, 'trivet node sync'")
	}
	t.suspicion.Confirmed = true
	return entry.Done()
}

// Trust takes the suspicion back.
type Trust struct{}

// Validate implements Command.
func (Trust) Validate() error { return nil }

func applyTrust(t Txn, _ Trust) entry.Result {
	t.suspicion = Suspicion{}
	return entry.Done()
}

// SyncSuspicion returns why the last synchronisation with Ironic deleted nothing, if it
// did not.
func (s *Tables) SyncSuspicion() (Suspicion, bool) { return s.suspicion, !s.suspicion.IsZero() }

func check(t Txn, p *valid.Problems) {
	if t.suspicion.IsZero() {
		return
	}
	if err := t.suspicion.validate(); err != nil {
		p.Addf("suspicion of Ironic's list: %v", err)
	}
	p.Want(t.suspicion.Since <= t.Position.Now, "Ironic's list is suspected since %v, which is to come", t.suspicion.Since)
}
