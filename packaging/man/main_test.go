package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli"
)

// TestPages: each command has a page with its examples, tables and commands stay as
// they are typed, and trivet.yaml(5) has every key.
func TestPages(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(filepath.Join("..", ".."))
	if err := write(dir, "v0.1.0", "2026-11-21"); err != nil {
		t.Fatal(err)
	}
	page := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		if text := page(name); c.Example != "" && !strings.Contains(text, ".SH EXAMPLE") {
			t.Errorf("%s has no example:\n%s", name, text)
		}
		for _, child := range c.Commands() {
			if child.IsAvailableCommand() && child.Name() != "help" {
				walk(child)
			}
		}
	}
	walk(cli.Commands())
	for name, parts := range map[string][]string{
		"trivet.1": {`.TH "TRIVET" "1" "Nov 2026" "trivet v0.1.0" "Trivet"`,
			"  75  leadership, or the lease of a program, was lost", `\(aqtrivet init\(aq`, ".nh\n.ad l\n.SH NAME"},
		"import/trivet-import.1": {`trivet\-import database URL`},
		"trivet.yaml.5": {"TRIVET_API_LISTEN", `\fBfirewall.lease\fR`, `.TH "TRIVET.YAML" "5"`,
			".nh\n.ad l\n.SH NAME"},
	} {
		text := page(name)
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %q", name, part)
			}
		}
		if strings.Contains(text, "<!--") {
			t.Errorf("%s shows a comment", name)
		}
	}
}

func TestMarked(t *testing.T) {
	want := "a \\*b\\* \\<c\\>\n\n      x  *y*\n\nend\n"
	if got := marked("a *b* <c>\n  x  *y*\nend"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
