package document

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestMembers(t *testing.T) {
	v, err := read(json.RawMessage(` {"b" : [ 1 ], "a":null, "\u0062": "x", "": 0} `))
	if err != nil {
		t.Fatal(err)
	}
	members, err := v.Members()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"b", "a", ""}; !slices.Equal(members.Names, want) {
		t.Errorf("names %q, want %q", members.Names, want)
	}
	for name, want := range map[string]string{"b": `"x"`, "a": "null", "": "0", "B": ""} {
		if got := string(members.Get(name).Raw()); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
	if got := string(
		members.With("a", []byte("[1]")).With("c<", []byte("2")).JSON()); got != `{"b":"x","a":[1],"":0,"c<":2}` {
		t.Error(got)
	}
	if got, err := v.Canonical(); err != nil || string(got) != `{"":0,"a":null,"b":"x"}` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestElements(t *testing.T) {
	all := []string{`{"a": [1, 2]}`, `-1.5e3`, `[]`, `"\\\""`}
	for most, want := range map[int][]string{0: nil, 2: all[:2], 4: all, 9: all} {
		got, n, err := Checked(json.RawMessage(`[ {"a": [1, 2]} , -1.5e3,[],"\\\"" ]`)).Elements(most)
		if err != nil || n != 4 ||
			!slices.EqualFunc(got, want, func(v *Value, text string) bool { return string(v.Raw()) == text }) {
			t.Errorf("up to %d: %v, %d, %v", most, got, n, err)
		}
	}
	for _, other := range []*Value{nil, Checked([]byte("{}")), Checked([]byte("null"))} {
		if got, n, err := other.Elements(1); got != nil || n != 0 || err != nil {
			t.Errorf("%s has elements: %v, %d, %v", other.Raw(), got, n, err)
		}
	}
}

func TestOtherThingsHaveNoMembers(t *testing.T) {
	for _, text := range []string{`[]`, `null`, `"{}"`, `1`} {
		if members, err := Checked([]byte(text)).Members(); err == nil {
			t.Errorf("%s has the members %v", text, members)
		}
	}
	var missing *Value
	if _, err := missing.Members(); err == nil || missing.Raw() != nil || missing.Text() != "" || !missing.Empty() ||
		missing.Kind() != None {
		t.Error("what is missing is something")
	}
	for _, text := range []string{``, `{} 1`, `{"a":}`, `{"a":1`, `[] 1`, `[,]`, `[1`, "nil"} {
		if v, err := read([]byte(text)); err == nil {
			t.Errorf("%q is taken for %s", text, v.Raw())
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
	if err := Pick([]byte(` {"other": [1, {"name": 2}], "name": "a\u0062", "size": null}`), into); err != nil ||
		name != "ab" || size != 0 {
		t.Errorf("%q, %d, %v", name, size, err)
	}
	for _, bad := range []string{"", "[]", `{"name": 1}`, `{"size": "x"}`, `{"other": }`, "{} {}"} {
		if err := Pick([]byte(bad), into); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// read makes a value of JSON text. An error names the byte.
func read(raw json.RawMessage) (*Value, error) {
	s := scanner{text: raw}
	if err := s.only(s.value); err != nil {
		return nil, err
	}
	return Checked(raw), nil
}
