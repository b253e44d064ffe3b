package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/term"
)

// everyCommand calls do with each command that can be run or asked for help.
func everyCommand(do func(*cobra.Command)) {
	p := &program{Terminal: &term.Terminal{}}
	root := p.root()
	root.InitDefaultCompletionCmd()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		do(c)
		for _, child := range shown(c) {
			walk(child)
		}
	}
	walk(root)
}

// TestEveryCommandHasExamples: help and manual page of each command that does
// something show how it is called, and the calls are ones that it understands.
func TestEveryCommandHasExamples(t *testing.T) {
	d := &documented{T: t, roots: programs(), page: "examples"}
	everyCommand(func(c *cobra.Command) {
		if c.HasSubCommands() && c.HasParent() && c.Name() != "members" {
			return // a group; its commands have examples
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
			return
		}
		if !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("the example of %s does not call it:\n%s", c.CommandPath(), c.Example)
		}
		for line := range strings.Lines(strings.ReplaceAll(c.Example, "\\\n", " ")) {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("the example of %s is not indented: %q", c.CommandPath(), line)
			}
			if !strings.Contains(line, "completion") { // cobra's own
				d.called(strings.TrimSpace(line))
			}
		}
	})
	if d.commands < 80 {
		t.Errorf("only %d calls were found in the examples", d.commands)
	}
}

// TestHelpIsGrouped: every command stands in a group of the help.
func TestHelpIsGrouped(t *testing.T) {
	p := &program{Terminal: &term.Terminal{}}
	root := p.root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range shown(root) {
		if c.GroupID == "" || !root.ContainsGroup(c.GroupID) {
			t.Errorf("%s stands in no group", c.CommandPath())
		}
	}
	if help := root.UsageString(); strings.Contains(help, "Additional Commands") ||
		!strings.Contains(help, "\nPXE:\n  dnsmasq-config") {
		t.Errorf("the help is not grouped:\n%s", help)
	}
}

func TestArgumentsOf(t *testing.T) {
	for use, want := range map[string]string{
		"x":                             "",
		"x [PEER]":                      "PEER?",
		"x NODE…":                       "NODE*",
		"x FILE...":                     "FILE*",
		"x NODE INTERFACE":              "NODE INTERFACE",
		"x NAME --token TOKEN":          "NAME",
		"x NAME -- COMMAND ARGUMENT…":   "NAME COMMAND ARGUMENT*",
		"x --election NAME":             "",
		"x HOST[:PORT]":                 "HOST[:PORT]",
		"x GRACE COMMAND ARGUMENT… ":    "GRACE COMMAND ARGUMENT*",
		"x --via floating-ip|endpoints": "",
		"x FILE|-":                      "FILE|-",
		"help [COMMAND]…":               "COMMAND?*",
		"set-address PEER HOST:PORT":    "PEER HOST:PORT",
		"explain NODE|MAC [flags]":      "NODE|MAC",
	} {
		var got []string
		for _, a := range term.ArgumentsOf(&cobra.Command{Use: use}) {
			text := a.Name
			if a.Optional {
				text += "?"
			}
			if a.Many {
				text += "*"
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", use, got, want)
		}
	}
}

// TestHelpFitsATerminal: no line of a help text is wider than a terminal of old.
func TestHelpFitsATerminal(t *testing.T) {
	lines := 0
	everyCommand(func(c *cobra.Command) {
		for line := range strings.Lines(c.Long) {
			lines++
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("%s: a line of %d columns: %s", c.CommandPath(), n, line)
			}
		}
	})
	if lines < 300 {
		t.Errorf("only %d lines were found", lines)
	}
}

func TestFilled(t *testing.T) {
	long := strings.Repeat("word ", 17)
	for text, want := range map[string]string{
		"":                         "",
		"a\nb\n\nc":                "a b\n\nc",
		"Codes:\n   0  a\n   1  b": "Codes:\n   0  a\n   1  b",
		"a\n  b\nc":                "a\n  b\nc",
		long:                       strings.TrimSpace(strings.Repeat("word ", 16)) + "\nword",
	} {
		if got := filled(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
