package haconfig

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// rawJSON is JSON as it was sent.
type rawJSON = json.RawMessage

// Operation is one of a JSON patch. Only "add" is used, which replaces what there
// is.
type Operation struct {
	Op    string  `json:"op"`
	Path  string  `json:"path"`
	Value rawJSON `json:"value"`
}

// patch gathers what is to be changed of an object.
type patch struct {
	here []string // paths at which there is an object by now; a few
	ops  []Operation
	err  error
}

func newPatch(here ...string) *patch { return &patch{here: here} }

// setNumber changes a number if it is another.
func (p *patch) setNumber(before, after *int32, path ...string) {
	if after == nil || before != nil && *before == *after {
		return
	}
	p.addOperation(*after, path...)
}

// set changes a value if what it is encoded as means something else. Nothing at all
// and an empty list mean the same.
func (p *patch) set(before, after any, path ...string) error {
	if isEmpty(before) && !isEmpty(after) { // most objects: nothing need be compared
		p.addOperation(after, path...)
		return nil
	}
	old, err := normal(before)
	if err != nil {
		return err
	}
	now, err := normal(after)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(old, now) {
		p.addOperation(after, path...)
	}
	return nil
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// normal is a value as JSON has it, so that two can be compared.
func normal(value any) (out any, err error) {
	text, err := encode(value)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

// addOperation adds an operation, after those that make what is missing above.
func (p *patch) addOperation(value any, path ...string) {
	text, err := encode(value)
	if err != nil {
		p.err = err
		return
	}
	for i := 1; i < len(path); i++ {
		above := "/" + strings.Join(path[:i], "/")
		if !slices.Contains(p.here, above) {
			p.here = append(p.here, above)
			p.ops = append(p.ops, Operation{"add", above, rawJSON("{}")})
		}
	}
	p.ops = append(p.ops, Operation{"add", "/" + strings.Join(path, "/"), text})
}

// verdict is the outcome.
func (p *patch) verdict() (Verdict, error) { return Verdict{Patch: p.ops}, p.err }
