package config

import (
	"errors"
	"testing"
)

// FuzzLoad feeds files: no panic, every refusal a Problems with a place, and
// what is accepted comes out the same when its effective values are loaded again.
func FuzzLoad(f *testing.F) {
	template, err := Template(nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{sketch, string(template), "a: b: c", "- x", "api:\n\tlisten: x", "a: &a {b: *a}",
		"\"\": x", "? [a]\n: b", "--- \n---\n", "api: {\"a.b\": 1}", "%YAML 9.9\n---\n", "!!binary x: y", "\x00",
		"\xff\xfe"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Load(Sources{File: "f", Text: text})
		var problems Problems
		switch {
		case errors.As(err, &problems):
			for _, p := range problems {
				if p.What == "" {
					t.Fatalf("a problem says nothing: %+v", p)
				}
			}
			return
		case err != nil:
			t.Fatalf("%T: %v", err, err)
		}
		again := make(map[string]string)
		for _, o := range Options() {
			if o.AliasOf == "" && c.Origin(o.Key).Kind != FromDefault && !o.Secret() {
				again[o.Key] = o.text(&c)
			}
		}
		if c.Ironic.Password != "" {
			again["ironic.password"] = c.Ironic.Password.Reveal()
		}
		d, err := Load(Sources{Flags: again})
		if err != nil {
			t.Fatalf("accepted from the file, refused as flags %v: %v", again, err)
		}
		for _, o := range Options() {
			if o.text(&c) != o.text(&d) {
				t.Fatalf("%s: %q from the file, %q from its own listing", o.Key, o.text(&c), o.text(&d))
			}
		}
	})
}
