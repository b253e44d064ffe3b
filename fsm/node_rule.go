package fsm

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

var ruleDomain = domain{
	Verbs: []entry.Verb[*txn]{
		entry.NewVerb(80, "create rule", applyCreateRule).From(2),
		entry.NewVerb(81, "delete rule", applyDeleteRule).From(2),
		entry.NewVerb(82, "delete rules", applyDeleteRules).From(2),
	},
	Sections: []entry.Section[*txn]{
		entry.Many('u', "rules", func(d *txn) table.Of[Rule] { return d.rules.inOrder }, func(d *txn, r Rule) { d.rules.put(r) }).Shown(shownRules),
	},
	Check: checkRules,
}

// Bounds of rules.
const (
	// MaxRules is the greatest number of rules.
	MaxRules = 1000
	// MaxRule is the greatest length of one rule's body, in bytes.
	MaxRule = 64 << 10
	// MaxRuleBytes is the greatest length of all bodies together: every worker
	// holds them, and every snapshot.
	MaxRuleBytes = 8 << 20
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

// rules holds the rules in their order and finds them by UUID.
type rules struct {
	inOrder table.Of[Rule]
	byUUID  table.Of[fencing.Token] // to inOrder
	bytes   int                     // of all bodies
}

func newRules() rules { return rules{inOrder: table.New[Rule](), byUUID: table.New[fencing.Token]()} }

func (r *rules) put(rule Rule) {
	r.inOrder.Put(table.TokenKey(rule.Created), rule)
	r.byUUID.Put([]byte(rule.UUID), rule.Created)
	r.bytes += len(rule.Body)
}

func (r *rules) drop(rule Rule) {
	r.inOrder.Drop(table.TokenKey(rule.Created))
	r.byUUID.Drop([]byte(rule.UUID))
	r.bytes -= len(rule.Body)
}

func (r rules) get(id string) (Rule, bool) {
	created, ok := r.byUUID.Get([]byte(id))
	if !ok {
		return Rule{}, false
	}
	return r.inOrder.Get(table.TokenKey(created))
}

// CreateRule adds a rule behind all others. Its Value is the Rule as stored.
type CreateRule struct {
	UUID string `cbor:"1,keyasint"` // the client's, or minted by the proposer
	Body []byte `cbor:"2,keyasint"`
}

// Validate implements Command.
func (c CreateRule) Validate() error { return Rule{UUID: c.UUID, Body: c.Body}.validate() }

func applyCreateRule(t *txn, c CreateRule) Result {
	switch {
	case t.rules.byUUID.Has([]byte(c.UUID)):
		return entry.Refuse(Conflict, "Rule with UUID %s already exists", c.UUID) // the contract's words
	case t.rules.inOrder.Size() >= MaxRules:
		return entry.Refuse(Refused, "%d rules exist, which is the most; delete one", MaxRules)
	case t.rules.bytes+len(c.Body) > MaxRuleBytes:
		return entry.Refuse(Refused, "the rules would have more than %d bytes together; delete one", MaxRuleBytes)
	}
	rule := Rule{UUID: c.UUID, Created: t.Token, Body: c.Body}
	t.rules.put(rule)
	t.recordRule(eventring.ActionCreated, c.UUID, 0)
	return entry.Answer(rule)
}

// DeleteRule removes a rule.
type DeleteRule struct {
	UUID string `cbor:"1,keyasint"`
}

// Validate implements Command.
func (c DeleteRule) Validate() error { return validRuleID(c.UUID) }

func applyDeleteRule(t *txn, c DeleteRule) Result {
	rule, ok := t.rules.get(c.UUID)
	if !ok {
		return entry.Refuse(NotFound, "Rule %s was not found", c.UUID) // the contract's words
	}
	t.rules.drop(rule)
	t.recordRule(eventring.ActionDeleted, c.UUID, 0)
	return entry.Done()
}

// DeleteRules removes all rules, if there are any.
type DeleteRules struct{}

// Validate implements Command.
func (DeleteRules) Validate() error { return nil }

func applyDeleteRules(t *txn, _ DeleteRules) Result {
	if n := t.rules.inOrder.Size(); n > 0 {
		t.recordRule(eventring.ActionAllDeleted, "", n)
	}
	t.rules = newRules()
	return entry.Done()
}

// RulesVersion stands for what rules there are: two views with equal versions
// have the same rules. It may be compared, and keeps nothing else alive.
type RulesVersion struct {
	rules table.Of[Rule]
}

// RulesVersion returns the version of the view's rules.
func (v View) RulesVersion() RulesVersion { return RulesVersion{v.data.rules.inOrder} }

// Rules iterates over the rules, oldest first.
func (v View) Rules() iter.Seq[Rule] {
	return func(yield func(Rule) bool) {
		for _, rule := range v.data.rules.inOrder.All() {
			if !yield(rule) {
				return
			}
		}
	}
}

// RuleCount returns how many rules there are.
func (v View) RuleCount() int { return v.data.rules.inOrder.Size() }

// Rule returns a rule by its UUID, spelled as when it was created.
func (v View) Rule(id string) (Rule, bool) { return v.data.rules.get(id) }

func checkRules(d *txn, p *valid.Problems) {
	p.Want(d.rules.inOrder.Size() <= MaxRules && d.rules.bytes <= MaxRuleBytes, "%d rules of %d bytes", d.rules.inOrder.Size(), d.rules.bytes)
	p.Want(d.rules.byUUID.Size() == d.rules.inOrder.Size(), "%d rules have %d UUIDs", d.rules.inOrder.Size(), d.rules.byUUID.Size())
	bytes := 0
	for key, rule := range d.rules.inOrder.All() {
		bytes += len(rule.Body)
		p.Want(string(key) == string(table.TokenKey(rule.Created)) && rule.Created <= d.shared.Granted(), "rule %s of entry %v is filed under %x", rule.UUID, rule.Created, key)
		created, _ := d.rules.byUUID.Get([]byte(rule.UUID))
		p.Want(created == rule.Created, "rule %s was created by %v and %v", rule.UUID, rule.Created, created)
		if err := rule.validate(); err != nil {
			p.Addf("%v", err)
		}
	}
	p.Want(d.rules.bytes == bytes, "the rules have %d bytes, counted are %d", bytes, d.rules.bytes)
}

// dumpedRule leaves the body out: a rule may set a password.
type dumpedRule struct {
	UUID    string        `json:"uuid"`
	Created fencing.Token `json:"created"`
	Bytes   int           `json:"bytes"`
}

func shownRules(t *txn) any {
	return table.Map(t.rules.inOrder, func(r Rule) dumpedRule {
		return dumpedRule{UUID: r.UUID, Created: r.Created, Bytes: len(r.Body)}
	})
}
