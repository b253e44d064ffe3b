package inspector

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestMembers(t *testing.T) {
	o, err := Members(json.RawMessage(` {"b" : [ 1 ], "a":null, "\u0062": "x", "": 0} `))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range o {
		names = append(names, m.Name)
	}
	if want := []string{"b", "a", "b", ""}; !slices.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
	for name, want := range map[string]string{"b": `"x"`, "a": "null", "": "0", "B": ""} {
		if got := string(o.Get(name)); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

func TestFirstElements(t *testing.T) {
	for most, want := range map[int]int{0: 0, 2: 2, 3: 3, 9: 3} {
		got, all, err := FirstElements(json.RawMessage(`[1, [2], 3]`), most)
		if err != nil || len(got) != want || all != 3 {
			t.Errorf("up to %d: %s, %d, %v", most, got, all, err)
		}
	}
	if got, all, err := FirstElements(json.RawMessage(`[1, 2, `), 1); err == nil || got != nil || all != 0 {
		t.Errorf("%s, %d, %v", got, all, err)
	}
}

func TestElements(t *testing.T) {
	got, err := Elements(json.RawMessage(`[ {"a": [1, 2]} , -1.5e3,[],"\\\"" ]`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`{"a": [1, 2]}`, `-1.5e3`, `[]`, `"\\\""`}
	if !slices.EqualFunc(got, want, func(raw json.RawMessage, text string) bool { return string(raw) == text }) {
		t.Errorf("got %s", got)
	}
}

func TestOtherThingsHaveNoMembers(t *testing.T) {
	for _, text := range []string{``, `[]`, `null`, `"{}"`, `{} 1`, `{"a":}`, `{"a":1`} {
		if o, err := Members(json.RawMessage(text)); err == nil {
			t.Errorf("%q has the members %v", text, o)
		}
	}
	for _, text := range []string{``, `{}`, `null`, `[] 1`, `[,]`, `[1`} {
		if e, err := Elements(json.RawMessage(text)); err == nil {
			t.Errorf("%q has the elements %s", text, e)
		}
	}
}

func TestPick(t *testing.T) {
	var name string
	var size int
	into := func(member []byte) any {
		switch string(member) {
		case "name":
			return &name
		case "size":
			return &size
		}
		return nil
	}
	if err := Pick([]byte(` {"other": [1, {"name": 2}], "name": "a\u0062", "size": null}`), into); err != nil || name != "ab" || size != 0 {
		t.Errorf("%q, %d, %v", name, size, err)
	}
	for _, bad := range []string{"", "[]", `{"name": 1}`, `{"size": "x"}`, `{"other": }`, "{} {}"} {
		if err := Pick([]byte(bad), into); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
