package rules

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector"
)

// re2 is what follows the fault of a pattern.
const re2 = `; value has the syntax of RE2: write it without look-around, back-references, atomic groups, possessive quantifiers and the flag x`

// steps is what follows the fault of a path.
const steps = `; a path is made of keys, [n], [*], * and .., and a key that is no plain word stands in quotes`

// taken says that we take what the original refuses.
const taken = "taken"

// refusals are where we refuse with 400 what the original takes or fails at with
// 500, or with another text, and with what text.
var refusals = map[string]string{
	`[{"op": "in-net", "field": "a", "value": 5}]`:              `Invalid parameters for operator in-net: invalid value: expected a network as text, got int`,
	`[{"op": "in-net", "field": "a", "value": true}]`:           `Invalid parameters for operator in-net: invalid value: expected a network as text, got bool`,
	`[{"op": "in-net", "field": "a", "value": ["10.0.0.0/8"]}]`: `Invalid parameters for operator in-net: invalid value: expected a network as text, got list`,
	`[{"op": "matches", "field": "a"}]`:                         `Invalid parameters for operator matches: missing required parameter(s): value`,
	`[{"op": "matches", "field": "a", "value": null}]`:          `Invalid parameters for operator matches: missing required parameter(s): value`,
	`[{"op": "contains", "field": "a", "value": 5}]`:            `Invalid parameters for operator contains: invalid regular expression: expected text, got int`,
	`[{"action": "set-attribute", "path": 5, "value": 1}]`:      `Invalid parameters for action set-attribute: invalid path: expected text, got int`,
	`[{"op": "eq", "field": "data://", "value": 1}]`:            `Unable to parse field JSON path data://: it is empty; $ is the whole`,
	`[{"op": "eq", "field": "node://a.", "value": 1}]`: `Unable to parse field JSON path node://a.: it cannot be read from . on` +
		steps,
	`[{"op": "eq", "field": "..", "value": 1}]`: `Unable to parse field JSON path ..: it cannot be read from .. on` +
		steps,
	`[{"op": "eq", "field": "data://a{", "value": 1}]`: `Unable to parse field JSON path data://a{: it cannot be read from { on` +
		steps,
	`[{"op": "matches", "field": "a", "value": "("}]`: `Invalid parameters for operator matches: invalid regular expression: missing closing ): (` +
		re2,
	`[{"op": "contains", "field": "a", "value": "a**"}]`: `Invalid parameters for operator contains: invalid regular expression: invalid nested repetition operator: **` +
		re2,
	`[{"op": "contains", "field": "a", "value": "*a"}]`: `Invalid parameters for operator contains: invalid regular expression: missing argument to repetition operator: *` +
		re2,
	`[{"op": "contains", "field": "a", "value": "[z-a]"}]`: `Invalid parameters for operator contains: invalid regular expression: invalid character class range: z-a` +
		re2,
	`[{"op": "contains", "field": "a", "value": "\\q"}]`: `Invalid parameters for operator contains: invalid regular expression: invalid escape sequence: \q` +
		re2,
	`[{"op": "contains", "field": "a", "value": "a(?i)"}]`: `Invalid parameters for operator contains: invalid regular expression: global flags not at the start of the expression at position 1` +
		re2,
	`[{"op": "contains", "field": "a", "value": "(?P<n>a)(?P<n>b)"}]`: taken,
}

// Every list of conditions or actions is judged as by the original, in its
// words.
func TestValidationIsTheOriginals(t *testing.T) {
	for _, line := range vectors(t, "validation.jsonl") {
		what, list, outcome := text(t, line[0]), string(line[1]), string(line[2])
		_, err := Parse(fmt.Appendf(nil, `{"actions": [{"action": "example"}], "%s": %s}`, what, list))
		want := refusals[list]
		if want == "" && outcome == "400" {
			want = text(t, line[3])
		}
		if want == "Validation failed for actions: [] is too short" && what == "conditions" {
			want = ""
		}
		if want == taken {
			want, outcome = "", `"OK"`
		}
		var said *inspector.Refusal
		switch {
		case want == "" && outcome != `"OK"`:
			t.Errorf("%s: no expectation for %s", list, line[3])
		case want == "" && err != nil:
			t.Errorf("%s: %v", list, err)
		case want != "" && (!errors.As(err, &said) || said.Status != http.StatusBadRequest || said.Message != want):
			t.Errorf("%s: %v, want %s", list, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	const action = `"actions":[{"action":"fail","message":"boom"}]`
	for body, want := range map[string]string{
		`{` + action +
			`}`: `{"actions":[{"action":"fail","message":"boom"}],"conditions":[],"description":null,"scope":null}`,
		`{"uuid":"11111111-1111-4111-8111-000000000001","description":"first","scope":"gold","links":5,"conditions":[{"value":1024,"op":"eq","field":"memory_mb"}],` +
			action +
			`}`: `{"actions":[{"action":"fail","message":"boom"}],"conditions":[{"field":"memory_mb","invert":false,"multiple":"any","op":"eq","value":1024}],"description":"first","scope":"gold"}`,
		`{"scope":"","description":"","conditions":[{"op":"is-empty","field":"a","invert":true,"multiple":"all"}],` + action +
			`}`: `{"actions":[{"action":"fail","message":"boom"}],"conditions":[{"field":"a","invert":true,"multiple":"all","op":"is-empty"}],"description":"","scope":""}`,
		`{"uuid":null,"actions":[{"value":{"b":1.50,"a":"<\u00e9>","a":"x"},"action":"set-attribute","path":"/extra/x"}]}`: `{"actions":[{"action":"set-attribute","path":"/extra/x","value":{"a":"x","b":1.50}}],"conditions":[],"description":null,"scope":null}`,
		"":                            "!Invalid data: the body is not valid JSON: it ends too early",
		`{"actions":`:                 "!Invalid data: the body is not valid JSON: it ends too early",
		`[]`:                          "!Invalid data: expected a JSON object, got list",
		`null`:                        "!Invalid data: expected a JSON object, got NoneType",
		`{}`:                          "!Validation failed for actions: [] is too short",
		`{"uuid":"x",` + action + `}`: "!Invalid UUID value",
		`{"uuid":5,` + action + `}`:   "!Invalid UUID value",
		`{"scope":5,` + action + `}`:  "!Invalid scope: expected text, got int",
		`{"description":5,` + action + `}`: `{"actions":[{"action":"fail","message":"boom"}],` +
			`"conditions":[],"description":"5","scope":null}`,
		`{"description":1.50,` + action + `}`: `{"actions":[{"action":"fail","message":"boom"}],` +
			`"conditions":[],"description":"1.50","scope":null}`,
		`{"description":true,` + action + `}`: "!Invalid description: expected text, got bool",
		`{"description":[],` + action + `}`:   "!Invalid description: expected text, got list",
		`{"scope":"` + strings.Repeat("é", 256) + `",` + action +
			`}`: "!Invalid scope: the length of the scope should be within 255 characters",
		`{"actions":[{"action":"set-attribute","path":"/a","value":{"k":["{data.x}"]}}]}`: "!Invalid parameters for action set-attribute: invalid value {data.x}: cannot be read from {data.x} on; a field is {data[key][0]}, with !s or !r and a width as :>8 behind it if need be, and a brace that is none is doubled",
		`{"conditions":[{"op":"eq","field":"a","value":` + strings.Repeat("9", 5000) + `}],` + action +
			`}`: "!parameter value: Exceeds the limit (4300 digits) for integer string conversion",
		`{"conditions":[{"op":"eq","field":"` + strings.Repeat("a", 2000) + `","value":1}],` + action +
			`}`: "!Unable to parse field JSON path " + strings.Repeat("a", 512) + "…: it has 2000 bytes, allowed are 1024",
		`{"conditions":[{"op":"matches","field":"a","value":"` + strings.Repeat("a", 2001) + `"}],` + action +
			`}`: "!Invalid parameters for operator matches: invalid regular expression: it has 2001 bytes, allowed are 2000",
		`{"conditions":[{"op":"matches","field":"a","value":"(\\w{1000}){9}"}],` + action +
			`}`: "!Invalid parameters for operator matches: invalid regular expression: invalid repeat count: {9}" + re2,
		`{"conditions":[` + strings.Repeat(`{"op":"is-empty","field":"a"},`, 100) + `{"op":"is-empty","field":"a"}],` +
			action + `}`: "!Validation failed for conditions: 101 items are too many, allowed are 100",
	} {
		got, err := Parse([]byte(body))
		if problem, refused := strings.CutPrefix(want, "!"); refused {
			var said *inspector.Refusal
			if !errors.As(err, &said) || said.Message != problem {
				t.Errorf("%.200s: %v, want %s", body, err, problem)
			}
			continue
		}
		if err != nil || string(got.Body) != want {
			t.Errorf("%.200s: %s, %v, want %s", body, got.Body, err, want)
		}
		if _, err := load(got.Body); err != nil {
			t.Errorf("%s cannot be loaded: %v", got.Body, err)
		}
	}
	got, err := Parse([]byte(`{"uuid":"11111111-1111-4111-8111-00000000000A",` + action + `}`))
	if err != nil || got.UUID != "11111111-1111-4111-8111-00000000000A" {
		t.Errorf("%+v, %v", got, err)
	}
}
