package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// Whatever is sent as a rule, it is refused with 400 or stored in a form that
// loads and is stored again as it is; and whatever a stored rule meets, it ends
// with a failure that has a place in the contract or none. The fuzzer reports an input
// that hangs.
func FuzzRule(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, body, data []byte) {
		d, err := Parse(body)
		if err != nil {
			var said *inspector.Refusal
			if !errors.As(err, &said) || said.Status != 400 || said.Message == "" {
				t.Fatalf("%v is no refusal", err)
			}
			return
		}
		again, err := Parse(d.Body)
		if err != nil || string(again.Body) != string(d.Body) {
			t.Fatalf("%s is stored again as %s (%v)", d.Body, again.Body, err)
		}
		parsed, err := document.Parse(data)
		if err != nil {
			return
		}
		if len(d.Body) > ruleset.MaxRule {
			return
		}
		r := newRoom(t, plainNode)
		err = NewEngine().Apply(t.Context(), stateOf(t, d), inspector.NewTask(parsed, r.node(), r))
		var problem *document.Problem
		var exception *document.Exception
		if err != nil && !errors.As(err, &problem) && !errors.As(err, &exception) {
			t.Fatalf("%T: %v", err, err)
		}
	})
}

func stateOf(t testing.TB, d Definition) fsm.View {
	t.Helper()
	state := fsm.New()
	data, err := fsm.Encode(fsm.Header{}, ruleset.Create{UUID: nodeID, Body: d.Body})
	if err != nil {
		t.Fatal(err)
	}
	if res := state.Apply(fsm.Entry{Index: 1, Term: 1, Data: data}); res.Code != fsm.OK {
		t.Fatal(res.Message)
	}
	return state.View()
}

// seeds are the recorded rules, and one for each recorded path, format, operator
// and list of conditions or actions.
func seeds(f *testing.F) {
	const action = `"actions":[{"action":"fail","message":"boom"}]`
	for _, line := range vectors(f, "jsonpath.jsonl") {
		f.Add(fmt.Appendf(nil, `{"conditions":[{"op":"is-empty","field":%s}],%s}`, line[0], action), []byte(pathDocument))
	}
	for _, line := range vectors(f, "format.jsonl") {
		f.Add(fmt.Appendf(nil, `{"actions":[{"action":"set-attribute","path":"/extra/x","value":%s}]}`, line[0]),
			[]byte(formatDocument))
	}
	for _, line := range vectors(f, "operators.jsonl") {
		f.Add(fmt.Appendf(nil, `{"conditions":[{"op":%s,"field":"f","value":%s}],%s}`, line[0], line[1], action),
			fmt.Appendf(nil, `{"f":%s}`, line[2]))
	}
	for _, line := range vectors(f, "validation.jsonl") {
		f.Add(fmt.Appendf(nil, `{%s:%s,%s}`, line[0], line[1], strings.Replace(action, "actions", "ignored", 1)),
			[]byte(ramdiskData))
	}
	f.Add(
		[]byte(
			`{"scope":"gold","uuid":"11111111-1111-4111-8111-000000000001","description":"first","conditions":[{"op":"eq","field":"node://extra.order","value":"second","invert":true,"multiple":"all"}],"actions":[{"action":"extend-attribute","path":"/extra/l","value":["{data[cpus]}"],"unique":true},{"action":"set-capability","name":"a"},{"action":"add-trait","name":"T"}]}`),
		[]byte(ramdiskData))
}
