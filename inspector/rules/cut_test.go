package rules

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector"
)

// What is cut without being checked is cut where the reader that checks cuts it.
func TestCut(t *testing.T) {
	for _, text := range []string{
		`[]`, `{}`, "[ \n]", `{ }`, `[1]`, `[ -1.5e+3 , true,false ,null, "a,]" ]`, `["\\", "\"]", "\u005d"]`,
		`[[], [[]], {"a":[1,{"b":"}"}]} , 0]`, `{"a" : 1 , "\"b" :{"c": [ ]},"":"\\" , "a":null}`, formatDocument, pathDocument, rackData(),
	} {
		raw := json.RawMessage(strings.TrimSpace(text))
		parts, err := cut(raw, nil, maxValues)
		if err != nil {
			t.Errorf("%.80s: %v", text, err)
			continue
		}
		var want []part
		if raw[0] == '[' {
			elements, err := inspector.Elements(raw)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range elements {
				want = append(want, part{value: e})
			}
		} else {
			members, err := inspector.Members(raw)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range members {
				want = append(want, part{json.RawMessage(m.Name), m.Value})
			}
		}
		if len(parts) != len(want) {
			t.Errorf("%.80s: %d items, want %d", text, len(parts), len(want))
			continue
		}
		for i, p := range parts {
			name := ""
			if p.name != nil {
				name = unquote(p.name)
			}
			if name != string(want[i].name) || string(p.value) != string(want[i].value) {
				t.Errorf("%.80s: item %d is %s: %s, want %s: %s", text, i, p.name, p.value, want[i].name, want[i].value)
			}
		}
	}
}

// Text that nobody checked is refused, or cut into something, but ends.
func TestCutOfNoJSON(t *testing.T) {
	whole := `{"a":[1,{"b":"c\""}],"d":true}`
	for n := 1; n < len(whole); n++ {
		if _, err := cut(json.RawMessage(whole[:n]), nil, maxValues); !errors.Is(err, errNotJSON) {
			t.Errorf("%s: %v", whole[:n], err)
		}
	}
}

func TestCutIsBounded(t *testing.T) {
	if parts, err := cut(json.RawMessage(`[1,2,3,4,5]`), nil, 2); err != nil || len(parts) != 3 {
		t.Errorf("%d items, %v", len(parts), err)
	}
	for depth, fine := range map[int]bool{maxDepth: true, maxDepth + 1: false} {
		_, err := cut(json.RawMessage(strings.Repeat("[", depth)+strings.Repeat("]", depth)), nil, maxValues)
		if (err == nil) != fine {
			t.Errorf("%d lists inside each other: %v", depth, err)
		}
	}
}
