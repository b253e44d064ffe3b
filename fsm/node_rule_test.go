package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/ruleset"
)

func TestRules(t *testing.T) {
	r := newRig(t)
	var stored ruleset.Rule
	if err := r.must(ruleset.Create{UUID: nodeB, Body: []byte(`{"a":1}`)}).Decode(&stored); err != nil {
		t.Fatal(err)
	}
	if got, ok := r.view().Rule(nodeB); !ok || got.Created != fencing.At(r.view().Base(), r.index) ||
		string(got.Body) != `{"a":1}` || stored.UUID != nodeB || stored.Created != got.Created {
		t.Errorf("rule %+v, result %+v", got, stored)
	}
	version := r.view().RulesVersion()
	r.must(Probe{})
	r.refused(Conflict, Header{}, ruleset.Create{UUID: nodeB, Body: []byte(`{}`)})
	r.refused(NotFound, Header{}, ruleset.Delete{UUID: nodeA})
	if r.view().RulesVersion() != version {
		t.Error("the version changed and the rules did not")
	}
	r.must(ruleset.Create{UUID: nodeA, Body: []byte(`{}`)})
	if got := ruleIDs(r.view()); !slices.Equal(got, []string{nodeB, nodeA}) || r.view().RuleCount() != 2 {
		t.Errorf("order %v", got)
	}
	if r.view().RulesVersion() == version {
		t.Error("the rules changed and the version did not")
	}
	r.must(ruleset.Delete{UUID: nodeB})
	r.must(ruleset.Create{UUID: nodeB, Body: []byte(`{}`)})
	if got := ruleIDs(r.view()); !slices.Equal(got, []string{nodeA, nodeB}) {
		t.Errorf("order after a rule was created anew: %v", got)
	}
	r.must(ruleset.DeleteAll{})
	r.must(ruleset.DeleteAll{})
	if r.view().RuleCount() != 0 {
		t.Error("rules are left")
	}
}

func ruleIDs(v View) (ids []string) {
	for rule := range v.Rules() {
		ids = append(ids, rule.UUID)
	}
	return ids
}

func TestRulesAreBounded(t *testing.T) {
	state, err := Founded(founding(), time.UnixMilli(1))
	if err != nil {
		t.Fatal(err)
	}
	index := uint64(1)
	create := func(body string) Result { // without the check after each entry: there are many
		index++
		return state.Apply(Entry{Index: index, Term: 1,
			Data: encoded(t, Header{}, ruleset.Create{UUID: fmt.Sprintf("%032x", index), Body: []byte(body)})})
	}
	for range ruleset.MaxRules {
		if res := create("{}"); res.Code != OK {
			t.Fatal(res.Message)
		}
	}
	if res := create("{}"); res.Code != Refused || !strings.Contains(res.Message, "1000 rules exist") {
		t.Errorf("one more: %+v", res)
	}
	index++
	state.Apply(Entry{Index: index, Term: 1, Data: encoded(t, Header{}, ruleset.DeleteAll{})})
	large := strings.Repeat("x", ruleset.MaxRule)
	for range ruleset.MaxBytes / ruleset.MaxRule {
		if res := create(large); res.Code != OK {
			t.Fatal(res.Message)
		}
	}
	if res := create("{}"); res.Code != Refused || !strings.Contains(res.Message, "bytes together") {
		t.Errorf("a byte more: %+v", res)
	}
	if err := state.View().Check(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]Command{
		"no UUID": ruleset.Create{UUID: "x", Body: []byte("{}")}, "no body": ruleset.Create{UUID: nodeA},
		"too large":         ruleset.Create{UUID: nodeA, Body: []byte(large + "x")},
		"delete by no UUID": ruleset.Delete{UUID: ""},
	} {
		if c.Validate() == nil {
			t.Errorf("%s is valid", name)
		}
	}
}

// Bodies may hold passwords, and are not shown.
func TestDumpLeavesBodiesOfRulesOut(t *testing.T) {
	r := newRig(t)
	r.must(ruleset.Create{UUID: nodeA, Body: []byte(`{"password":"hunter2"}`)})
	if text := dumpText(t, r.view()); strings.Contains(text, "hunter2") || !strings.Contains(text, nodeA) {
		t.Error(text)
	}
}

// rule is what the model makes of the rules.
func (m *model) rule(c Command) Code {
	at := func(id string) int {
		return slices.IndexFunc(m.rules, func(r ruleset.Create) bool { return r.UUID == id })
	}
	switch c := c.(type) {
	case ruleset.Create:
		if at(c.UUID) >= 0 {
			return Conflict
		}
		m.rules = append(m.rules, c)
	case ruleset.Delete:
		i := at(c.UUID)
		if i < 0 {
			return NotFound
		}
		m.rules = slices.Delete(m.rules, i, i+1)
	case ruleset.DeleteAll:
		m.rules = nil
	}
	return OK
}

// ofRules draws a command about rules.
func ofRules(t *rapid.T) Command {
	switch id := node(t); rapid.IntRange(0, 4).Draw(t, "of rules") {
	case 0:
		return ruleset.DeleteAll{}
	case 1:
		return ruleset.Delete{UUID: id}
	default:
		return ruleset.Create{UUID: id, Body: []byte(rapid.SampledFrom([]string{"{}", "[]"}).Draw(t, "body"))}
	}
}
