package importer

import (
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/cli/term"
)

// No answer tells the password, and each way to call it wrongly has its exit code.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, in string
		args     []string
		code     int
		out, err string
	}{
		{"help", "", []string{"--help"}, 0, "trivet-import database URL", ""},
		{"nothing", "", nil, 0, "Usage:", ""},
		{"no command", "", []string{"sqlite:////x"}, 2, "", "trivet-import: hint: see 'trivet-import --help'"},
		{"no URL", "", []string{"database"}, 2, "", "URL"},
		{"an option", "", []string{"database", "--url"}, 2, "", "--url"},
		{"an unknown option of the URL", "", []string{"database", "mysql://u:sesame@h/d?what=1"}, 1, "",
			`the URL of the database has the option "what"`},
		{"standard input", "mysql://u:sesame@h/d?what=1\n", []string{"database", "-"}, 1, "",
			`the URL of the database has the option "what"`},
		{"empty standard input", "", []string{"database", "-"}, 1, "", "the URL of the database must begin with sqlite://"},
		{"too long", strings.Repeat("x", maxURL+1), []string{"database", "-"}, 1, "", "more than 4096 bytes"},
		{"no file", "", []string{"database", "sqlite:////nowhere/x.sqlite"}, 1, "",
			"trivet-import: hint: the database must exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errw strings.Builder
			code := Run(t.Context(), &term.Terminal{In: strings.NewReader(c.in), Out: &out, Err: &errw, Program: Name}, c.args)
			if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errw.String(), c.err) ||
				c.out == "" && out.Len() > 0 || strings.Contains(errw.String(), "sesame") {
				t.Errorf("exit %d, want %d\n%s\n%s", code, c.code, &out, &errw)
			}
		})
	}
}

// Help fits 80 columns, and each command has an example.
func TestHelpFits(t *testing.T) {
	root := Commands(&term.Terminal{})
	for _, c := range append(root.Commands(), root) {
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if len([]rune(strings.TrimSuffix(line, "\n"))) > 80 {
				t.Errorf("%s: %s", c.CommandPath(), line)
			}
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
	}
}
