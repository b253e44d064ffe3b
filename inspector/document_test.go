package inspector

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
	d, err := ParseDocument([]byte(text))
	if err != nil {
		t.Fatalf("parse %.200s: %v", text, err)
	}
	return d
}

func textOfDocument(t testing.TB, d *Document) string {
	t.Helper()
	raw, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
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
		{"too deep", strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101), syntax + `byte 502: more than 100 arrays and objects inside each other`},
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
			_, err := ParseDocument([]byte(tt.text))
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
		{"digits", `{"a": 1.000, "b": 1e400, "c": 12345678901234567890123}`, `{"a":1.000,"b":1e400,"c":12345678901234567890123}`},
		{"order", `{"z": 1, "a": {"y": 2, "b": 3}}`, `{"z":1,"a":{"y":2,"b":3}}`},
		{"white space in strings", "{\"a b\" :\t[ \"c  d\\\" e\" ,\r\n 1 ] }", `{"a b":["c  d\" e",1]}`},
		{"escapes", `{"a": "\u00e9\/<&>\ud800\\"}`, `{"a":"\u00e9\/<&>\ud800\\"}`},
		{"key with an escape", `{"\u0061": 1, "<\"": 2}`, `{"a":1,"<\"":2}`},
		{"twice", `{"a": 1, "b": 2, "a": 3}`, `{"a":3,"b":2}`},
		{"twice inside", `{"a": {"b": 1, "b": 2}}`, `{"a":{"b":1,"b":2}}`},
		{"deep", strings.Repeat(`{"a":`, 99) + "[ ]" + strings.Repeat("}", 99), strings.Repeat(`{"a":`, 99) + "[]" + strings.Repeat("}", 99)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := textOfDocument(t, parsed(t, tt.text)); got != tt.want {
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
	if got := string(d.Raw("l")); got != "[1]" {
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
	if got, want := textOfDocument(t, d), `{"a":[1],"b":"<&>","c":null}`; got != want {
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
		d, err := ParseDocument([]byte(text))
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
	again, err := ParseDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Apply(changes); err != nil {
		t.Fatalf("apply %s: %v", changes, err)
	}
	want, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.JSON()
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s with %s is %s, %v; want %s", text, changes, got, err, want)
	}
	if second, err := again.Overlay(); err != nil || !bytes.Equal(second, changes) {
		t.Fatalf("the overlay %s became %s, %v", changes, second, err)
	}
}

// FuzzDocument compares with encoding/json: what it takes for an object in
// UTF-8, not too deep, is a document, and says the same.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `{"a": [1, -2.5e+10, "x\u00e9\n", true, false, null, {"b": {}}]}`, `{"a":1,"a":2,"b":[ ]}`, `{"\u0061":"\ud800"}`,
		`{"a":01}`, `{"a":1.}`, `{"a":1e}`, "{\"a\":\"\x01\"}", `{"a":tru`, `{"a":"\u12`, "{\"\xff\":0}", `nulll`, string(ramdiskSample(2)),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := ParseDocument(raw)
		if err != nil {
			var object map[string]json.RawMessage
			if json.Unmarshal(raw, &object) == nil && object != nil && !strings.Contains(err.Error(), "UTF-8") && !strings.Contains(err.Error(), "more than 100") {
				t.Fatalf("%q was refused: %v", raw, err)
			}
			return
		}
		var want, got any
		if err := json.Unmarshal(raw, &want); err != nil && !outOfRange(err) {
			t.Fatalf("%q was taken; encoding/json says %v", raw, err)
		}
		out, err := d.JSON()
		if err != nil || len(out) > 6*len(raw) {
			t.Fatalf("%q became %q, %v", raw, out, err)
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
			if err := d.Set(key+"x", d.Raw(key)); err != nil {
				t.Fatal(err)
			}
			d.Delete(key)
		}
		checkOverlay(t, raw, d)
		MachineOf(d)
	})
}

// outOfRange reports whether a number was too large for a float64, which is no
// fault of the document.
func outOfRange(err error) bool {
	var e *json.UnmarshalTypeError
	return errors.As(err, &e) && strings.HasPrefix(e.Value, "number")
}

// ramdiskSample is a document as a ramdisk with so many interfaces sends it;
// with 16 it has about 30 KB. Python writes spaces after commas and colons.
func ramdiskSample(nics int) []byte {
	var out bytes.Buffer
	out.WriteString(`{"inventory": {"interfaces": [`)
	for i := range nics {
		fmt.Fprintf(&out, `{"name": "eth%d", "mac_address": "52:54:00:00:%02X:%02x", "ipv4_address": "172.24.%d.%d", "ipv6_address": "fe80::5054:ff:fe00:%x%%eth%d", "has_carrier": true, "lldp": [`, i, i>>8, i&255, i>>8, i&255, i, i)
		for tlv := range 20 {
			fmt.Fprintf(&out, `[%d, "%040x"], `, tlv, i)
		}
		out.WriteString(`[0, ""]], "vendor": "0x8086", "product": "0x1572", "client_id": null, "speed_mbps": 10000}, `)
	}
	out.WriteString(`{"name": "lo", "mac_address": "00:00:00:00:00:00", "ipv4_address": "127.0.0.1"}], "cpu": {"count": 8, "architecture": "x86_64", "flags": ["fpu", "vmx"]}, `)
	out.WriteString(`"memory": {"physical_mb": 65536}, "disks": [`)
	for i := range nics {
		fmt.Fprintf(&out, `{"name": "/dev/sd%d", "size": 1073741824000, "model": "LABDISK 1000G", "serial": "SLAB%06d", "rotational": true, "wwn": null}, `, i, i)
	}
	out.WriteString(`{"name": "/dev/sdz", "size": 21474836480}], "bmc_address": "198.18.0.1", "bmc_v6address": "::/0"}, "boot_interface": "01-52-54-00-00-00-00", "error": null, `)
	fmt.Fprintf(&out, `"root_disk": {"name": "/dev/sda"}, "logs": "%s"}`, strings.Repeat("H4sIAAAAAAAC/8vK", 64))
	return out.Bytes()
}

func BenchmarkParseDocument(b *testing.B) {
	raw := ramdiskSample(16)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseDocument(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCallback is what this package does with a document on its way: at
// the door, at the worker, and when the processed one is stored.
func BenchmarkCallback(b *testing.B) {
	raw := ramdiskSample(16)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		d, err := ParseDocument(raw)
		if err != nil {
			b.Fatal(err)
		}
		d.Delete("logs")
		if MachineOf(d); len(d.keys) == 0 {
			b.Fatal("an empty document")
		}
		stored, err := d.JSON()
		if err != nil {
			b.Fatal(err)
		}
		if d, err = ParseDocument(stored); err != nil {
			b.Fatal(err)
		}
		if err := d.Set("macs", []string{"52:54:00:00:00:00"}); err != nil {
			b.Fatal(err)
		}
		if _, err := d.Overlay(); err != nil {
			b.Fatal(err)
		}
	}
}
