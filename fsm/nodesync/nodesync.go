// Package nodesync holds why the last synchronisation with Ironic deleted no record, and
// why the last list of ports took no MAC from the blacklist: the guard against erasing a
// site, or opening it (docs/design.md#sync).
//
// The commands: [Suspect] and [Trust] of the leader, [Confirm] of an operator.
package nodesync

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Domain is all that the log, snapshots and Check know of it.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb[Txn, Suspect](84, "suspect sync").ByLeader().From(3),
		entry.NewVerb[Txn, Confirm](85, "confirm sync").From(3),
		entry.NewVerb[Txn, Trust](86, "trust sync").ByLeader().From(3),
	},
	Sections: []entry.Section[Txn]{
		entry.Seldom('Y', "sync", func(t Txn) *Suspicion { return &t.suspicion }),
		entry.Seldom('F', "port sync", func(t Txn) *Suspicion { return &t.ofPorts }),
	},
	Checks: entry.Checks[Txn]{check},
}

// Tables are the suspicions, of the list of nodes and of that of ports, if there are any.
type Tables struct{ suspicion, ofPorts Suspicion }

// of returns the suspicion of one of the lists.
func (s *Tables) of(ports bool) *Suspicion {
	if ports {
		return &s.ofPorts
	}
	return &s.suspicion
}

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
// none. Of ports it says the same as of nodes.
type Suspicion struct {
	Reason  string `cbor:"1,keyasint,omitempty"`
	Missing int    `cbor:"2,keyasint,omitempty"` // nodes with a record that Ironic did not list
	Known   int    `cbor:"3,keyasint,omitempty"` // nodes with a record
	// Digest is that of the nodes that are missing; "" when nothing can be confirmed.
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
	Ports     bool      `cbor:"2,keyasint,omitempty"` // it is the list of ports
}

// Validate implements Command.
func (c Suspect) Validate() error {
	if c.Suspicion.Since != 0 {
		return errors.New("the age of a suspicion is the entry's")
	}
	return c.Suspicion.validate()
}

// Apply implements entry.Change.
func (c Suspect) Apply(t Txn) entry.Result {
	now, at := c.Suspicion, t.of(c.Ports)
	before := *at
	if before.Reason == now.Reason && before.Digest == now.Digest && before.Confirmed == now.Confirmed {
		return entry.Done()
	}
	now.Since = t.Now()
	*at = now
	return entry.Done()
}

// Confirm lets the leader delete the nodes, or the ports, that an operator was shown as
// missing. It is refused when the suspicion is another one by now.
type Confirm struct {
	Digest string `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c Confirm) Validate() error { return valid.Length("digest", c.Digest, 1, maxDigest) }

// Apply implements entry.Change.
func (c Confirm) Apply(t Txn) entry.Result {
	for _, ports := range []bool{false, true} {
		if s := t.of(ports); s.Digest == c.Digest {
			s.Confirmed = true
			return entry.Done()
		}
	}
	return entry.Refuse(entry.Conflict,
		"Ironic's list is not the one that was shown, or cannot be confirmed: look again, 'trivet node sync'")
}

// Trust takes the suspicion of one of the lists back.
type Trust struct {
	Ports bool `cbor:"1,keyasint,omitempty"` // it is the list of ports
}

// Validate implements Command.
func (Trust) Validate() error { return nil }

// Apply implements entry.Change.
func (c Trust) Apply(t Txn) entry.Result {
	*t.of(c.Ports) = Suspicion{}
	return entry.Done()
}

// SyncSuspicion returns why the last synchronisation with Ironic deleted nothing, if it
// did not.
func (s *Tables) SyncSuspicion() (Suspicion, bool) { return s.suspicion, !s.suspicion.IsZero() }

// PortSuspicion returns why the last list of Ironic's ports took no MAC from the
// blacklist, if it did not.
func (s *Tables) PortSuspicion() (Suspicion, bool) { return s.ofPorts, !s.ofPorts.IsZero() }

func check(t Txn, p *valid.Problems) {
	for _, s := range []Suspicion{t.suspicion, t.ofPorts} {
		if s.IsZero() {
			continue
		}
		p.Invalid(s.validate(), "suspicion of Ironic's list: ")
		p.Want(s.Since <= t.Position.Now, "Ironic's list is suspected since %v, which is to come", s.Since)
	}
}

// The guard against a short list (docs/design.md#sync): one that lacks more than both of
// these deletes nothing until an operator confirms it, or it has said the same for SuspectFor.
const (
	SuspectShare = 5  // one in five of what is known
	SuspectCount = 10 // nodes, or ports

	// SuspectFor is how long such a list has to say the same before it is believed.
	SuspectFor = 24 * time.Hour
)

// WhyDoubted says why a list of nodes, or of ports, should not be believed, "" if it may be.
func WhyDoubted(things string, missing, known, listed int) string {
	switch {
	case listed == 0:
		return fmt.Sprintf("Ironic lists no %s at all, %d are known here", things, known)
	case missing > SuspectCount && missing*SuspectShare > known:
		return fmt.Sprintf("Ironic's list lacks %d of the %d %s that are known here", missing, known, things)
	default:
		return ""
	}
}

// Digest names what is missing, in order.
func Digest(missing []string) string {
	sum := sha256.Sum256([]byte(strings.Join(missing, "\n")))
	return hex.EncodeToString(sum[:8])
}

// Settles reports whether a doubtful list may be acted on at a time, after this suspicion:
// it was confirmed, or has said the same for long enough.
func (s Suspicion) Settles(now Suspicion, at entry.Time) bool {
	return !s.IsZero() && s.Digest == now.Digest && (s.Confirmed || at.Sub(s.Since) >= SuspectFor)
}
