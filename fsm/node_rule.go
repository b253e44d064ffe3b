package fsm

import (
	"iter"

	"github.com/benbjohnson/immutable"
	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

var ruleDomain = domain{
	verbs: []row{
		verb(80, "create rule", applyCreateRule).from(2),
		verb(81, "delete rule", applyDeleteRule).from(2),
		verb(82, "delete rules", applyDeleteRules).from(2),
	},
	sections: []section{
		many('u', "rules", func(d *data) table[Rule] { return d.rules.inOrder }, func(d *data, r Rule) { d.rules.put(r) }).shown(shownRules),
	},
	check: checkRules,
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
		return invalid("rule %s has a body of %d bytes, allowed are 1 to %d", r.UUID, len(r.Body), MaxRule)
	}
	return nil
}

// validRuleID accepts every spelling of a UUID.
func validRuleID(id string) error {
	if _, err := uuid.Parse(id); err != nil {
		return invalid("rule %q is not a UUID", id)
	}
	return nil
}

// rules holds the rules in their order and finds them by UUID.
type rules struct {
	inOrder table[Rule]
	byUUID  table[fencing.Token] // to inOrder
	bytes   int                  // of all bodies
}

func newRules() rules { return rules{inOrder: newTable[Rule](), byUUID: newTable[fencing.Token]()} }

func (r *rules) put(rule Rule) {
	r.inOrder.put(tokenKey(rule.Created), rule)
	r.byUUID.put([]byte(rule.UUID), rule.Created)
	r.bytes += len(rule.Body)
}

func (r *rules) drop(rule Rule) {
	r.inOrder.drop(tokenKey(rule.Created))
	r.byUUID.drop([]byte(rule.UUID))
	r.bytes -= len(rule.Body)
}

func (r rules) get(id string) (Rule, bool) {
	created, ok := r.byUUID.get([]byte(id))
	if !ok {
		return Rule{}, false
	}
	return r.inOrder.get(tokenKey(created))
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
	case t.rules.byUUID.has([]byte(c.UUID)):
		return refuse(Conflict, "Rule with UUID %s already exists", c.UUID) // the contract's words
	case t.rules.inOrder.size() >= MaxRules:
		return refuse(Refused, "%d rules exist, which is the most; delete one", MaxRules)
	case t.rules.bytes+len(c.Body) > MaxRuleBytes:
		return refuse(Refused, "the rules would have more than %d bytes together; delete one", MaxRuleBytes)
	}
	rule := Rule{UUID: c.UUID, Created: t.token, Body: c.Body}
	t.rules.put(rule)
	t.recordRule(ActionCreated, c.UUID, 0)
	return answer(rule)
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
		return refuse(NotFound, "Rule %s was not found", c.UUID) // the contract's words
	}
	t.rules.drop(rule)
	t.recordRule(ActionDeleted, c.UUID, 0)
	return done()
}

// DeleteRules removes all rules, if there are any.
type DeleteRules struct{}

// Validate implements Command.
func (DeleteRules) Validate() error { return nil }

func applyDeleteRules(t *txn, _ DeleteRules) Result {
	if n := t.rules.inOrder.size(); n > 0 {
		t.recordRule(ActionAllDeleted, "", n)
	}
	t.rules = newRules()
	return done()
}

// RulesVersion stands for what rules there are: two views with equal versions
// have the same rules. It may be compared, and keeps nothing else alive.
type RulesVersion struct {
	tree *immutable.SortedMap[[]byte, *Rule]
}

// RulesVersion returns the version of the view's rules.
func (v View) RulesVersion() RulesVersion { return RulesVersion{v.d.rules.inOrder.tree} }

// Rules iterates over the rules, oldest first.
func (v View) Rules() iter.Seq[Rule] {
	return func(yield func(Rule) bool) {
		for _, rule := range v.d.rules.inOrder.all() {
			if !yield(rule) {
				return
			}
		}
	}
}

// RuleCount returns how many rules there are.
func (v View) RuleCount() int { return v.d.rules.inOrder.size() }

// Rule returns a rule by its UUID, spelled as when it was created.
func (v View) Rule(id string) (Rule, bool) { return v.d.rules.get(id) }

func checkRules(d *data, p *problems) {
	p.want(d.rules.inOrder.size() <= MaxRules && d.rules.bytes <= MaxRuleBytes, "%d rules of %d bytes", d.rules.inOrder.size(), d.rules.bytes)
	p.want(d.rules.byUUID.size() == d.rules.inOrder.size(), "%d rules have %d UUIDs", d.rules.inOrder.size(), d.rules.byUUID.size())
	bytes := 0
	for key, rule := range d.rules.inOrder.all() {
		bytes += len(rule.Body)
		p.want(string(key) == string(tokenKey(rule.Created)) && rule.Created <= d.granted(), "rule %s of entry %v is filed under %x", rule.UUID, rule.Created, key)
		created, _ := d.rules.byUUID.get([]byte(rule.UUID))
		p.want(created == rule.Created, "rule %s was created by %v and %v", rule.UUID, rule.Created, created)
		if err := rule.validate(); err != nil {
			p.addf("%v", err)
		}
	}
	p.want(d.rules.bytes == bytes, "the rules have %d bytes, counted are %d", bytes, d.rules.bytes)
}
