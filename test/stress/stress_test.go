package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	var r results
	lines := `{"Action":"output","Package":"a","Test":"TestX","Output":"why\n"}
{"Action":"fail","Package":"a","Test":"TestX","Elapsed":1}
{"Action":"fail","Package":"a","Elapsed":2}
{"Action":"pass","Package":"b","Elapsed":3.04}
# not json
`
	for range 2 {
		if err := r.read(t.Context(), strings.NewReader(lines)); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	r.report(&out, 90*time.Second)
	for _, want := range []string{"       2        0         3s  b\n       2        2         2s  a\n",
		"stress: 4 runs of 2 packages, 2 failures, 1m30s\n", "failed: a TestX\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// A process that dies says why in the name of the test that it ran, which then
// neither passes nor fails.
func TestDyingProcessIsQuoted(t *testing.T) {
	var r results
	lines := `{"Action":"output","Package":"a","Test":"TestX","Output":"fatal error: stack overflow\n"}
{"Action":"output","Package":"b","Test":"TestX","Output":"runs on\n"}
`
	if err := r.read(t.Context(), strings.NewReader(lines)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r.printUnfinished(&out, "a")
	if got, want := out.String(), "unfinished: a TestX\nfatal error: stack overflow\n\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
