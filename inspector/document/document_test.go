package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func parsed(t testing.TB, text string) *Document {
	t.Helper()
	d, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("parse %.200s: %v", text, err)
	}
	return d
}

func textOfDocument(d *Document) string {
	return string(d.JSON())
}

func TestRefusedDocuments(t *testing.T) {
	const syntax = "Invalid data: the body is not valid JSON: "
	const object = "Invalid data: expected a JSON object, got "
	tests := []struct{ name, text, want string }{
		{"nothing", "", syntax + "it ends too early"},
		{"white space", " \n", syntax + "it ends too early"},
		{"half", `{"a": [1, {"b": "c`, syntax + "it ends too early"},
		{"half a literal", `{"a": tr`, syntax + "it ends too early"},
		{"not JSON", `{not json`, syntax + `byte 2: expected a string`},
		{"no colon", `{"a" 1}`, syntax + `byte 6: expected a colon`},
		{"comma too many", `{"a":1,}`, syntax + `byte 8: expected a string`},
		{"no comma", `{"a":[1 2]}`, syntax + `byte 9: expected a comma or "]"`},
		{"NaN", `{"a": NaN}`, syntax + `byte 7: expected a value`},
		{"leading zero", `{"a": 01}`, syntax + `byte 8: expected a comma or "}"`},
		{"number without digits", `{"a": -x}`, syntax + `byte 8: expected a digit`},
		{"escape", `{"a": "\x"}`, syntax + `byte 9: no such escape`},
		{"short escape", `{"a": "\u00g0"}`, syntax + `byte 12: expected four hexadecimal digits`},
		{"control character", "{\"a\": \"\n\"}", syntax + `byte 8: a control character inside a string`},
		{"not UTF-8", "{\"a\": \"\xff\"}", syntax + `it is not UTF-8`},
		{"key not UTF-8", "{\"\xff\": 1}", syntax + `it is not UTF-8`},
		{"byte order mark", "\ufeff{}", syntax + `byte 1: expected a value`},
		{"too deep", strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101),
			syntax + `byte 502: more than 100 arrays and objects inside each other`},
		{"two", `{} {}`, syntax + `byte 4: nothing may follow`},
		{"list", ` []`, object + "list"},
		{"text", `"x"`, object + "str"},
		{"null", `null`, object + "NoneType"},
		{"true", `true`, object + "bool"},
		{"whole", `-12`, object + "int"},
		{"one point zero", `1.0`, object + "float"},
		{"beyond floats", `1e400`, object + "float"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text))
			var problem *Problem
			if !errors.As(err, &problem) || problem.Text != tt.want {
				t.Errorf("%.40q: got %v, want the problem %q", tt.text, err, tt.want)
			}
		})
	}
}

func TestUntouchedValuesStayAsTheyCame(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", ` { } `, `{}`},
		{"digits", `{"a": 1.000, "b": 1e400, "c": 12345678901234567890123}`,
			`{"a":1.000,"b":1e400,"c":12345678901234567890123}`},
		{"order", `{"z": 1, "a": {"y": 2, "b": 3}}`, `{"z":1,"a":{"y":2,"b":3}}`},
		{"white space in strings", "{\"a b\" :\t[ \"c  d\\\" e\" ,\r\n 1 ] }", `{"a b":["c  d\" e",1]}`},
		{"escapes", `{"a": "\u00e9\/<&>\ud800\\"}`, `{"a":"\u00e9\/<&>\ud800\\"}`},
		{"key with an escape", `{"\u0061": 1, "<\"": 2}`, `{"a":1,"<\"":2}`},
		{"twice", `{"a": 1, "b": 2, "a": 3}`, `{"a":3,"b":2}`},
		{"twice inside", `{"a": {"b": 1, "b": 2}}`, `{"a":{"b":1,"b":2}}`},
		{"deep", strings.Repeat(`{"a":`, 99) + "[ ]" + strings.Repeat("}", 99),
			strings.Repeat(`{"a":`, 99) + "[]" + strings.Repeat("}", 99)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := textOfDocument(parsed(t, tt.text)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestValuesOfADocument(t *testing.T) {
	d := parsed(t, `{"n": null, "s": "x", "i": 7, "l": [1], "huge": 1e400}`)
	if d.Has("n") || d.Has("none") || !d.Has("s") {
		t.Error("null and what is missing are nothing; text is something")
	}
	var s string
	if ok, err := d.Get("s", &s); !ok || err != nil || s != "x" {
		t.Errorf("text: %q %v %v", s, ok, err)
	}
	if ok, err := d.Get("n", &s); ok || err != nil {
		t.Errorf("null: %v %v", ok, err)
	}
	var f float64
	for _, key := range []string{"l", "huge"} {
		_, err := d.Get(key, &f)
		var problem *Problem
		if !errors.As(err, &problem) || !strings.HasPrefix(problem.Text, key+": ") {
			t.Errorf("%s as a number: %v", key, err)
		}
	}
	for _, raw := range []string{"", "{", "1 2", "nil"} {
		if err := d.Set("r", json.RawMessage(raw)); err == nil || !strings.HasPrefix(err.Error(), "r: ") {
			t.Errorf("raw %q: %v", raw, err)
		}
	}
	if err := d.Set("f", func() {}); err == nil || !strings.HasPrefix(err.Error(), "f: ") {
		t.Errorf("a function as a value: %v", err)
	}
	if got := string(d.Value("l").Raw()); got != "[1]" {
		t.Errorf("raw: %s", got)
	}
}

func TestSetAndDelete(t *testing.T) {
	d := parsed(t, `{"a": 1, "logs": "x", "b": 2}`)
	for _, err := range []error{d.Set("b", "<&>"), d.Set("c", nil), d.Set("a", []int{1})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d.Delete("logs")
	d.Delete("nobody")
	if got, want := textOfDocument(d), `{"a":[1],"b":"<&>","c":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	changes, err := d.Overlay()
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"delete":["logs"],"set":{"a":[1],"b":"<&>","c":null},"order":["a","b","c"]}`; string(changes) != want {
		t.Errorf("changes %s, want %s", changes, want)
	}
}

func TestBadOverlays(t *testing.T) {
	for _, text := range []string{``, `[]`, `{"order":["a"]}`, `{"set":1}`} {
		if err := parsed(t, `{}`).Apply([]byte(text)); err == nil {
			t.Errorf("%q was applied", text)
		}
	}
}

// TestAnOverlayIsWhatChanged makes random changes twice, each by way of an
// overlay, and compares with the document they were made to.
func TestAnOverlayIsWhatChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"a", "b", "c", "d", "é\"", "f"})
		value := rapid.SampledFrom([]any{nil, 1, "x", []string{"y"}, map[string]any{"z": 1.5}, json.RawMessage(` [ 1 ] `)})
		text := rapid.SampledFrom([]string{`{}`, `{"a": 1}`, `{"c": {"x" : 1.0}, "b": null, "a": [ ]}`}).Draw(t, "document")
		d, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 12).Draw(t, "changes") {
			if k := key.Draw(t, "key"); rapid.Bool().Draw(t, "delete") {
				d.Delete(k)
			} else if err := d.Set(k, value.Draw(t, "value")); err != nil {
				t.Fatal(err)
			}
		}
		checkOverlay(t, []byte(text), d)
	})
}

// However the keys of two documents stand, the second comes out as it was.
func TestChangesToKeepTheOrder(t *testing.T) {
	for _, c := range [][2]string{
		{`{}`, `{"b":1,"a":2}`}, {`{"a":1,"b":2}`, `{"b":2,"a":1}`}, {`{"a":1,"b":2,"c":3}`, `{"a":1,"c":3,"d":4}`},
		{`{"a":1}`, `{}`}, {`{"a":[1, 2]}`, `{"a":[1,2]}`}, {`{"a":1}`, `{"z":0,"a":1}`},
	} {
		from, err := Parse([]byte(c[0]))
		if err != nil {
			t.Fatal(err)
		}
		want, err := Parse([]byte(c[1]))
		if err != nil {
			t.Fatal(err)
		}
		text, err := from.ChangesTo(want)
		if err != nil {
			t.Fatal(err)
		}
		if err := from.Apply(text); err != nil {
			t.Fatal(err)
		}
		if got := from.JSON(); string(got) != c[1] {
			t.Errorf("%s to %s by %s: %s", c[0], c[1], text, got)
		}
	}
}

type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// checkOverlay applies what changed in d to the text it was parsed from.
func checkOverlay(t fataler, text []byte, d *Document) {
	t.Helper()
	changes, err := d.Overlay()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Apply(changes); err != nil {
		t.Fatalf("apply %s: %v", changes, err)
	}
	if got, want := again.JSON(), d.JSON(); !bytes.Equal(got, want) {
		t.Fatalf("%s with %s is %s; want %s", text, changes, got, want)
	}
	if second, err := again.Overlay(); err != nil || !bytes.Equal(second, changes) {
		t.Fatalf("the overlay %s became %s, %v", changes, second, err)
	}
}

// FuzzDocument compares with encoding/json: what it takes for an object in
// UTF-8, not too deep, is a document, and says the same.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `{"a": [1, -2.5e+10, "x\u00e9\n", true, false, null, {"b": {}}]}`, `{"a":1,"a":2,"b":[ ]}`,
		`{"\u0061":"\ud800"}`,
		`{"a":01}`, `{"a":1.}`, `{"a":1e}`, "{\"a\":\"\x01\"}", `{"a":tru`, `{"a":"\u12`, "{\"\xff\":0}", `nulll`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := Parse(raw)
		if err != nil {
			var object map[string]json.RawMessage
			if json.Unmarshal(raw, &object) == nil && object != nil && !strings.Contains(err.Error(), "UTF-8") &&
				!strings.Contains(err.Error(), "more than 100") {
				t.Fatalf("%q was refused: %v", raw, err)
			}
			return
		}
		var want, got any
		if err := json.Unmarshal(raw, &want); err != nil && !outOfRange(err) {
			t.Fatalf("%q was taken; encoding/json says %v", raw, err)
		}
		out := d.JSON()
		if len(out) > 6*len(raw) {
			t.Fatalf("%q became %q", raw, out)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, out); err != nil || !bytes.Equal(compact.Bytes(), out) {
			t.Fatalf("%q became %q, which is not compact: %v", raw, out, err)
		}
		if err := json.Unmarshal(out, &got); err != nil && !outOfRange(err) {
			t.Fatal(err)
		}
		if w, g := fmt.Sprint(want), fmt.Sprint(got); w != g && !strings.Contains(w, "\ufffd") {
			t.Fatalf("%q says %s, %q says %s", raw, w, out, g)
		}
		for _, key := range slices.Clone(d.keys)[:min(len(d.keys), 3)] {
			if err := d.Set(key+"x", d.Value(key).Raw()); err != nil {
				t.Fatal(err)
			}
			d.Delete(key)
		}
		checkOverlay(t, raw, d)
	})
}

// outOfRange reports whether a number was too large for a float64, which is no
// fault of the document.
func outOfRange(err error) bool {
	var e *json.UnmarshalTypeError
	return errors.As(err, &e) && strings.HasPrefix(e.Value, "number")
}
