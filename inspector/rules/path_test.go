package rules

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/document"
)

// vectors reads what the original answered, one JSON array a line.
func vectors(t testing.TB, name string) (lines [][]json.RawMessage) {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var line []json.RawMessage
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			t.Fatalf("%s: %s: %v", name, in.Text(), err)
		}
		lines = append(lines, line)
	}
	if in.Err() != nil || len(lines) == 0 {
		t.Fatal(name, in.Err(), len(lines))
	}
	return lines
}

func text(t testing.TB, raw json.RawMessage) (s string) {
	t.Helper()
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func mustParse(t testing.TB, raw string) *document.Value {
	t.Helper()
	v, err := document.Of(json.RawMessage(raw))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const pathDocument = `{"a":{"b":[1,2,{"c":3}],"d":"str","n":null,"t":true,"f":1.5,"x-y":7,"e":{}, "l":[]},"k":["p","q"],"z":0,"mm":[[1,2],[3,4]],"disks":[{"name":"a","size":1},{"name":"b","size":2}]}`

// Every path that is taken finds what jsonpath-rw 1.4.0 finds, and fails where it
// fails. What jsonpath-rw does not take is refused, and so is what published rules
// do not use.
func TestPathsAreJSONPathRW(t *testing.T) {
	const key = `(?:\*|[A-Za-z_@][A-Za-z0-9_@-]*|'[^'\\]*'|"[^"\\]*")`
	simple := regexp.MustCompile(`^(?:\$|` + key + `|\[(?:-?\d{1,9}|` + key + `)\])(?:\.{1,2}` + key +
		`|\.{0,2}\[(?:-?\d{1,9}|` + key + `)\])*$`)
	taken := 0
	for _, line := range vectors(t, "jsonpath.jsonl") {
		p, outcome := text(t, line[0]), text(t, line[1])
		parsed, err := parsePath(p)
		if !simple.MatchString(p) || outcome == "PARSE" && p != "where" && p != "a.where" {
			if err == nil || !strings.Contains(err.Error(), "a path is made of keys") && p != "" {
				t.Errorf("%q: %v", p, err)
			}
			continue
		}
		if taken++; err != nil {
			t.Errorf("%q: %v", p, err)
			continue
		}
		if outcome == "PARSE" {
			continue
		}
		found, err := find(t.Context(), parsed, mustParse(t, pathDocument))
		if outcome == "FIND" {
			if got := exceptionText(err); got != text(t, line[2]) {
				t.Errorf("%q: %s, want %s", p, got, line[2])
			}
			continue
		}
		want, err2 := mustParse(t, string(line[2])).Split()
		if err != nil || err2 != nil {
			t.Errorf("%q: %v", p, err)
			continue
		}
		if got := listText(t, found); got != listText(t, want.Values) {
			t.Errorf("%q: %s, want %s", p, got, line[2])
		}
	}
	if taken < 60 {
		t.Errorf("%d paths are taken", taken)
	}
}

func listText(t testing.TB, values []*document.Value) (s string) {
	for _, v := range values {
		out, err := v.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		s += string(out) + "\n"
	}
	return s
}

func exceptionText(err error) string {
	var e *document.Exception
	if !errors.As(err, &e) {
		return "none"
	}
	return e.Class + ": " + e.Text
}
