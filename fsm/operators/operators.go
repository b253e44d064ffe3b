// Package operators holds to whom certificates of operators were given, and which of them
// are revoked.
//
// The commands: [NoteOperator] and [RevokeOperator].
package operators

import (
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Domain is all that the log, snapshots and Check know of operators.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb[Txn, NoteOperator](117, "note operator").From(2),
		entry.NewVerb[Txn, RevokeOperator](118, "revoke operator").From(2),
	},
	Sections: []entry.Section[Txn]{
		entry.Many('O', "operators", func(t Txn) table.Of[Operator] { return t.operators },
			func(t Txn, o Operator) { t.operators.Put([]byte(o.Name), o) }),
	},
	Checks: entry.Checks[Txn]{func(t Txn, p *valid.Problems) {
		p.Want(t.operators.Size() <= MaxOperators, "%d operators", t.operators.Size())
		for key, o := range t.operators.All() {
			p.Want(string(key) == o.Name && o.Name != "", "operator %s is filed under %q", o.Name, key)
			p.Want(o.Ends > max(o.Issued, o.Revoked), "certificates of operator %s end before they were issued", o.Name)
		}
	}},
}

// Tables are those who were given certificates, by name.
type Tables struct{ operators table.Of[Operator] }

// Txn is one entry at work on the operators.
type Txn struct {
	*entry.Txn
	*Tables
}

// MaxOperators bounds the operators that are remembered.
const MaxOperators = 200

// maxOperatorName bounds an operator's name, as certificates do.
const maxOperatorName = 64

// Operator is the record of an operator's certificates and their revocation. Times
// are Unix seconds of wall clocks, since certificates are judged by those.
type Operator struct {
	Name   string `cbor:"1,keyasint"`
	Issued int64  `cbor:"2,keyasint,omitempty"` // the newest one, as far as the log knows
	Ends   int64  `cbor:"3,keyasint,omitempty"` // the last of them
	// Revoked is the moment up to which all issued certificates are void; 0: none
	// is.
	Revoked int64 `cbor:"4,keyasint,omitempty"`
}

// NoteOperator records that a certificate is issued, before it is handed out.
type NoteOperator struct {
	Name   string `cbor:"1,keyasint"`
	Issued int64  `cbor:"2,keyasint"` // Unix seconds
	Ends   int64  `cbor:"3,keyasint"` // Unix seconds
}

// Validate implements Command.
func (c NoteOperator) Validate() error {
	if c.Issued <= 0 || c.Ends <= c.Issued {
		return fmt.Errorf("a certificate issued at %d that ends at %d", c.Issued, c.Ends)
	}
	return valid.Length("operator", c.Name, 1, maxOperatorName)
}

// Apply implements entry.Change.
func (c NoteOperator) Apply(t Txn) entry.Result {
	o, known := t.operators.Get([]byte(c.Name))
	if !known && !roomForOperator(&t.operators, t.Header.WallMillis) {
		return entry.Refuse(entry.Refused,
			"%d operators are remembered, which is the most, and a certificate of each may be good still", MaxOperators)
	}
	if c.Issued <= o.Revoked {
		return entry.Refuse(entry.Conflict,
			"certificates of operator %s that were issued up to %s are revoked: try again after that", c.Name,
			time.Unix(o.Revoked, 0).UTC().Format(time.RFC3339))
	}
	o.Name, o.Issued, o.Ends = c.Name, max(o.Issued, c.Issued), max(o.Ends, c.Ends)
	t.operators.Put([]byte(o.Name), o)
	return entry.Done()
}

// roomForOperator forgets an operator all of whose certificates have ended, if
// there are too many.
func roomForOperator(operators *table.Of[Operator], wall int64) bool {
	if operators.Size() < MaxOperators {
		return true
	}
	for key, o := range operators.All() {
		if o.Ends < wall/1000 {
			operators.Drop(key)
			return true
		}
	}
	return false
}

// RevokeOperator voids the certificates of an operator that were issued up to a
// moment, also those that the log never heard of: older versions noted none.
// Ends is when the last of those can have ended.
type RevokeOperator struct {
	Name string `cbor:"1,keyasint"`
	UpTo int64  `cbor:"2,keyasint"` // Unix seconds
	Ends int64  `cbor:"3,keyasint"` // Unix seconds
}

// Validate implements Command.
func (c RevokeOperator) Validate() error {
	if c.UpTo <= 0 || c.Ends <= c.UpTo {
		return fmt.Errorf("certificates up to %d that end at %d", c.UpTo, c.Ends)
	}
	return valid.Length("operator", c.Name, 1, maxOperatorName)
}

// Apply implements entry.Change.
func (c RevokeOperator) Apply(t Txn) entry.Result {
	o, known := t.operators.Get([]byte(c.Name))
	if !known && !roomForOperator(&t.operators, t.Header.WallMillis) {
		return entry.Refuse(entry.Refused,
			"%d operators are remembered, which is the most, and a certificate of each may be good still", MaxOperators)
	}
	// Up to the newest that the log knows of, too: the clock of the peer that revokes
	// may be behind that of the one that issued.
	o.Name, o.Revoked, o.Ends = c.Name, max(o.Revoked, c.UpTo, o.Issued), max(o.Ends, c.Ends)
	t.operators.Put([]byte(o.Name), o)
	return entry.Done()
}

// Adopt joins what two histories know of operators. If they are too
// many, records without a revocation are left out first: such a record only
// serves to list certificates.
func (t Txn) Adopt(others Tables) {
	mine := t.operators
	t.operators = table.Of[Operator]{}
	for _, revoked := range []bool{true, false} {
		for _, known := range []table.Of[Operator]{mine, others.operators} {
			for key, o := range known.All() {
				was, merged := t.operators.Get(key)
				if !merged && ((o.Revoked != 0) != revoked || t.operators.Size() >= MaxOperators) {
					continue
				}
				o.Issued, o.Ends, o.Revoked = max(o.Issued, was.Issued), max(o.Ends, was.Ends), max(o.Revoked, was.Revoked)
				t.operators.Put(key, o)
			}
		}
	}
}

// Operator returns what the log knows of an operator.
func (s *Tables) Operator(name string) (Operator, bool) { return s.operators.Get([]byte(name)) }

// Operators returns all that the log knows, in the order of names.
func (s *Tables) Operators() []Operator { return table.List(s.operators.All()) }

// Same says that no operator has changed since one was a copy of the other. It may fail to
// say so of tables that were read from snapshots.
func Same(a, b *Tables) bool { return a.operators.Same(b.operators) }
