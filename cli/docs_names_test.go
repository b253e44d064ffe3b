package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cli/trivet-import/importer"
	"github.com/trivet-ha/trivet/config"
)

// TestDocumentsNameWhatThereIs: every command, flag and key that a page tells
// people to write exists, and every configuration on it is one.
func TestDocumentsNameWhatThereIs(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	roots := programs()
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		d := &documented{T: t, roots: roots, page: filepath.Base(page)}
		d.blocks(string(text))
		d.spans(string(text))
		if d.page == "migrate.md" && (d.commands < 15 || d.keys < 8) {
			t.Errorf("%s: only %d commands and %d keys were found: is it written otherwise now?", d.page, d.commands, d.keys)
		}
	}
}

// programs are the commands of each program, by its name.
func programs() map[string]*cobra.Command {
	return map[string]*cobra.Command{"trivet": (&program{Terminal: &term.Terminal{}}).root(),
		importer.Name: importer.Commands(&term.Terminal{})}
}

// documented is a page under examination.
type documented struct {
	*testing.T
	roots          map[string]*cobra.Command // of the programs; one for all pages, since they take long to build
	page           string
	commands, keys int // that were found
}

var (
	fence = regexp.MustCompile("(?ms)^( *)```(\\w+)\n(.*?)^ *```$")
	span  = regexp.MustCompile("`([^`]+)`")
	call  = regexp.MustCompile(`(?:^|[|] *)(trivet|trivet-import) +([^|>#;&)]+)`)
	named = regexp.MustCompile(`^([a-z_]+(?:\.[a-z_]+)+)(?::|$)`)
)

// blocks looks at the fenced ones.
func (d *documented) blocks(text string) {
	d.Helper()
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		switch block[2] {
		case "sh":
			for line := range strings.Lines(strings.ReplaceAll(block[3], "\\\n", " ")) {
				d.called(strings.TrimSpace(line))
			}
		case "yaml":
			body := strings.ReplaceAll("\n"+block[3], "\n"+block[1], "\n")
			d.configured(body)
		}
	}
}

// configured wants a block to hold keys that there are, of values that they may
// have. What is needed besides is on other pages, and what begins with no section
// is another file.
func (d *documented) configured(body string) {
	d.Helper()
	if first, _, _ := strings.Cut(strings.TrimSpace(body), ":"); !slices.ContainsFunc(config.Sections(),
		func(s config.Section) bool { return s.Name == first }) {
		return
	}
	c, err := config.Load(config.Sources{File: d.page, Text: []byte(body)})
	if err != nil {
		d.Errorf("%s: %v\n%s", d.page, err, body)
	}
	for _, p := range c.CheckPairs() {
		if p.Key != "haconfig.via" { // the floating IP is on another page
			d.Errorf("%s: %v\n%s", d.page, p, body)
		}
	}
	d.keys++
}

// spans looks at what is set in type within the prose.
func (d *documented) spans(text string) {
	d.Helper()
	prose := fence.ReplaceAllString(text, "")
	for _, found := range span.FindAllStringSubmatch(prose, -1) {
		words := strings.Join(strings.Fields(found[1]), " ")
		d.called(words)
		key := named.FindStringSubmatch(words)
		if key == nil || strings.HasSuffix(key[1], ".conf") {
			continue
		}
		inSection, isSection := false, false
		for _, s := range config.Sections() {
			inSection = inSection || s.Name != "" && strings.HasPrefix(key[1], s.Name+".")
			isSection = isSection || s.Name == key[1]
		}
		if !inSection || isSection {
			continue // something else with a dot in it
		}
		d.keys++
		if _, ok := config.Lookup(key[1]); !ok {
			d.Errorf("%s: there is no key %s", d.page, key[1])
		}
	}
}

// called looks at the calls of trivet in a line of a shell.
func (d *documented) called(line string) {
	d.Helper()
	for _, found := range call.FindAllStringSubmatch(line, -1) {
		program, words := found[1], strings.Fields(found[2])
		if slices.ContainsFunc(words, func(w string) bool {
			return w == "help" || strings.HasPrefix(w, "…") || strings.HasPrefix(w, "COMMAND")
		}) {
			continue // a command in general, or cobra's own
		}
		d.commands++
		c, rest, err := d.roots[program].Find(words)
		if err != nil {
			d.Errorf("%s: %s: %v", d.page, found[0], err)
			continue
		}
		d.flagged(c, rest, found[2])
	}
}

// flagged wants the flags of a call, and a command where its parent has several.
func (d *documented) flagged(c *cobra.Command, rest []string, line string) {
	d.Helper()
	known := func(name string) *pflag.Flag {
		if len(name) == 1 {
			return c.Flags().ShorthandLookup(name)
		}
		return c.Flag(name)
	}
	c.InitDefaultHelpFlag()
	c.Flags().AddFlagSet(c.InheritedFlags())
	value := false // the next word is one
	for _, word := range rest {
		name := strings.TrimLeft(word, "-")
		switch {
		case value:
			value = false
			continue
		case word == "--":
			return // what follows is another program's
		case len(name) == len(word) || name == "":
			if c.HasSubCommands() && word == strings.ToLower(word) && name != "" {
				d.Errorf("%s: trivet %s: %s has no command %s", d.page, line, c.CommandPath(), word)
			}
			continue
		}
		name, _, given := strings.Cut(name, "=")
		flag := known(name)
		if flag == nil {
			d.Errorf("%s: trivet %s: %s has no flag %s", d.page, line, c.CommandPath(), word)
			continue
		}
		value = !given && flag.NoOptDefVal == ""
	}
}
