package main

import (
	"strings"
	"testing"
)

// No answer tells the password, and each way to call it wrongly has its exit code.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, in string
		args     []string
		code     int
		out, err string
	}{
		{"help", "", []string{"--help"}, 0, "Usage: trivet-import URL > FILE", ""},
		{"nothing", "", nil, 2, "", "one argument is wanted"},
		{"an option", "", []string{"--url"}, 2, "", "one argument is wanted"},
		{"an unknown option of the URL", "", []string{"mysql://u:sesame@h/d?what=1"}, 1, "", `the URL of the database has the option "what"`},
		{"standard input", "mysql://u:sesame@h/d?what=1\n", []string{"-"}, 1, "", `the URL of the database has the option "what"`},
		{"empty standard input", "", []string{"-"}, 1, "", "the URL of the database must begin with sqlite://"},
		{"too long", strings.Repeat("x", maxURL+1), []string{"-"}, 1, "", "more than 4096 bytes"},
		{"no file", "", []string{"sqlite:////nowhere/x.sqlite"}, 1, "", "trivet-import: hint: the database must exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errw strings.Builder
			code := run(t.Context(), c.args, strings.NewReader(c.in), &out, &errw)
			if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errw.String(), c.err) || c.out == "" && out.Len() > 0 || strings.Contains(errw.String(), "sesame") {
				t.Errorf("exit %d, want %d\n%s\n%s", code, c.code, &out, &errw)
			}
		})
	}
}
