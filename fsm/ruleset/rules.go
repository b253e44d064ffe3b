// Package ruleset holds the introspection rules as text, in the order of their creation.
//
// The commands: [Create], [Delete] and [DeleteAll].
package ruleset

import (
	"fmt"
	"iter"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Domain is all that the log, snapshots and Check know of rules.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{
		entry.NewVerb[Txn, Create](80, "create rule").From(2),
		entry.NewVerb[Txn, Delete](81, "delete rule").From(2),
		entry.NewVerb[Txn, DeleteAll](82, "delete rules").From(2),
	},
	Sections: []entry.Section[Txn]{
		entry.ManyShown('u', "rules", func(t Txn) table.Of[Rule] { return t.inOrder }, Txn.put,
			func(r Rule) any { return dumpedRule{UUID: r.UUID, Created: r.Created, Bytes: len(r.Body)} }),
	},
	Checks: entry.Checks[Txn]{checkRules},
}

// Txn is one entry at work on the tables of rules.
type Txn struct {
	*entry.Txn
	*Tables
}

// Bounds of rules.
const (
	// MaxRules is the greatest number of rules.
	MaxRules = 1000
	// MaxRule is the greatest length of one rule's body, in bytes.
	MaxRule = 64 << 10
	// MaxBytes is the greatest length of all bodies together: every worker
	// holds them, and every snapshot.
	MaxBytes = 8 << 20
)

// Rule is an introspection rule. What its body means is for those who carry it
// out; they have checked it before it came here.
type Rule struct {
	UUID string `cbor:"1,keyasint"` // as it was given, in any letter case
	// Created is the token of the entry that created it: the order of rules.
	// Unlike an index it goes on after a restore.
	Created fencing.Token `cbor:"2,keyasint"`
	Body    []byte        `cbor:"3,keyasint"` // JSON; shared, must not be changed
}

func (r Rule) validate() error {
	if err := validRuleID(r.UUID); err != nil {
		return err
	}
	if len(r.Body) == 0 || len(r.Body) > MaxRule {
		return fmt.Errorf("rule %s has a body of %d bytes, allowed are 1 to %d", r.UUID, len(r.Body), MaxRule)
	}
	return nil
}

// validRuleID accepts every spelling of a UUID.
func validRuleID(id string) error {
	if _, err := uuid.Parse(id); err != nil {
		return fmt.Errorf("rule %q is not a UUID", id)
	}
	return nil
}

// Tables hold the rules in their order and find them by UUID.
type Tables struct {
	inOrder table.Of[Rule]
	byUUID  table.Of[fencing.Token] // to inOrder
	bytes   int                     // of all bodies
}

func (s *Tables) put(rule Rule) {
	s.inOrder.Put(table.TokenKey(rule.Created), rule)
	s.byUUID.Put([]byte(rule.UUID), rule.Created)
	s.bytes += len(rule.Body)
}

func (s *Tables) drop(rule Rule) {
	s.inOrder.Drop(table.TokenKey(rule.Created))
	s.byUUID.Drop([]byte(rule.UUID))
	s.bytes -= len(rule.Body)
}

// Create adds a rule behind all others. Its Value is the Rule as stored.
type Create struct {
	UUID string `cbor:"1,keyasint"` // the client's, or minted by the proposer
	Body []byte `cbor:"2,keyasint"`
}

// Validate implements Command.
func (c Create) Validate() error { return Rule{UUID: c.UUID, Body: c.Body}.validate() }

// Apply implements entry.Change.
func (c Create) Apply(t Txn) entry.Result {
	switch {
	case t.byUUID.Has([]byte(c.UUID)):
		return entry.Refuse(entry.Conflict, "Rule with UUID %s already exists", c.UUID) // the contract's words
	case t.inOrder.Size() >= MaxRules:
		return entry.Refuse(entry.Refused, "%d rules exist, which is the most; delete one", MaxRules)
	case t.bytes+len(c.Body) > MaxBytes:
		return entry.Refuse(entry.Refused, "the rules would have more than %d bytes together; delete one", MaxBytes)
	}
	rule := Rule{UUID: c.UUID, Created: t.Token, Body: c.Body}
	t.put(rule)
	t.recordRule(eventring.ActionCreated, c.UUID, 0)
	return entry.Answer(rule)
}

// Delete removes a rule.
type Delete struct {
	UUID string `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c Delete) Validate() error { return validRuleID(c.UUID) }

// Apply implements entry.Change.
func (c Delete) Apply(t Txn) entry.Result {
	rule, ok := t.Rule(c.UUID)
	if !ok {
		return entry.Refuse(entry.NotFound, "Rule %s was not found", c.UUID) // the contract's words
	}
	t.drop(rule)
	t.recordRule(eventring.ActionDeleted, c.UUID, 0)
	return entry.Done()
}

// DeleteAll removes all rules, if there are any.
type DeleteAll struct{}

// Validate implements Command.
func (DeleteAll) Validate() error { return nil }

// Apply implements entry.Change.
func (DeleteAll) Apply(t Txn) entry.Result {
	if n := t.inOrder.Size(); n > 0 {
		t.recordRule(eventring.ActionAllDeleted, "", n)
	}
	*t.Tables = Tables{}
	return entry.Done()
}

// Version stands for what rules there are: two views with equal versions
// have the same rules. It may be compared, and keeps nothing else alive.
type Version struct {
	rules table.Of[Rule]
}

// Version returns the version of the view's rules.
func (s *Tables) RulesVersion() Version { return Version{s.inOrder} }

// Rules iterates over the rules, oldest first.
func (s *Tables) Rules() iter.Seq[Rule] { return table.Values(s.inOrder.All()) }

// RuleCount returns how many rules there are.
func (s *Tables) RuleCount() int { return s.inOrder.Size() }

// Rule returns a rule by its UUID, spelled as when it was created.
func (s *Tables) Rule(id string) (Rule, bool) {
	created, ok := s.byUUID.Get([]byte(id))
	if !ok {
		return Rule{}, false
	}
	return s.inOrder.Get(table.TokenKey(created))
}

func checkRules(t Txn, p *valid.Problems) {
	p.Want(t.inOrder.Size() <= MaxRules && t.bytes <= MaxBytes, "%d rules of %d bytes", t.inOrder.Size(), t.bytes)
	p.Want(t.byUUID.Size() == t.inOrder.Size(), "%d rules have %d UUIDs", t.inOrder.Size(), t.byUUID.Size())
	bytes := 0
	for key, rule := range t.inOrder.All() {
		bytes += len(rule.Body)
		p.Want(string(key) == string(table.TokenKey(rule.Created)) && rule.Created <= t.Granted(),
			"rule %s of entry %v is filed under %x", rule.UUID, rule.Created, key)
		created, _ := t.byUUID.Get([]byte(rule.UUID))
		p.Want(created == rule.Created, "rule %s was created by %v and %v", rule.UUID, rule.Created, created)
		p.Invalid(rule.validate(), "")
	}
	p.Want(t.bytes == bytes, "the rules have %d bytes, counted are %d", bytes, t.bytes)
}

// dumpedRule leaves the body out: a rule may set a password.
type dumpedRule struct {
	UUID    string        `json:"uuid"`
	Created fencing.Token `json:"created"`
	Bytes   int           `json:"bytes"`
}

// recordRule records an event about rules.
func (t Txn) recordRule(action, id string, count int) {
	total := ""
	if count > 0 {
		total = fmt.Sprint(count)
	}
	t.RecordEvent(eventring.Event{Topic: eventring.TopicRule, Action: action, Peer: t.Proposer(),
		Fields: eventring.Fields("rule", id, "count", total)})
}
