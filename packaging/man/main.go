// Command man writes the manual pages of the packages into a directory: one for each
// command, made by cobra of its help, those of trivet-import in a directory "import" of
// their own, and trivet.yaml(5), made of the configuration's reference. Run it in the root of the repository: man DIR
// VERSION DATE.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/cli"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/cli/trivet-import/importer"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: man DIR VERSION DATE, in the root of the repository")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintf(os.Stderr, "man: error: %v\n", err)
		os.Exit(1)
	}
}

// write writes every page; date is a day, as 2026-11-21.
func write(dir, version, date string) error {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return fmt.Errorf("the date of the pages: %w", err)
	}
	header := doc.GenManHeader{Section: "1", Date: &day, Source: "trivet " + version, Manual: "Trivet"}
	if err := commands(cli.Commands(), header, dir); err != nil {
		return err
	}
	if err := commands(importer.Commands(new(term.Terminal)), header, filepath.Join(dir, "import")); err != nil {
		return err
	}
	text, err := os.ReadFile("docs/configuration.md")
	if err != nil {
		return fmt.Errorf("write trivet.yaml(5): %w", err)
	}
	page := literalPage(string(md2man.Render([]byte(configuration(string(text), version, day)))))
	if err := os.WriteFile(filepath.Join(dir, "trivet.yaml.5"), []byte(page), 0o644); err != nil {
		return fmt.Errorf("write trivet.yaml(5): %w", err)
	}
	return nil
}

// commands writes a page for each command of a program.
func commands(root *cobra.Command, header doc.GenManHeader, dir string) error {
	root.DisableAutoGenTag = true
	mark(root)
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{Header: &header, Path: dir, CommandSeparator: "-"})
	}
	if err != nil {
		return fmt.Errorf("write the pages of commands: %w", err)
	}
	return typed(dir)
}

// copied has the signs that a printer would make typographic stay as they are typed,
// so that a command can be copied.
var copied = strings.NewReplacer(`\-`, `\-`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// literalPage makes what stands in a page fit to be copied: words are not divided at
// the ends of lines either.
func literalPage(text string) string {
	return strings.Replace(copied.Replace(text), "\n\n.SH NAME", "\n.nh\n.ad l\n.SH NAME", 1)
}

// typed makes commands in the pages of a directory fit to be copied.
func typed(dir string) error {
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return fmt.Errorf("list the pages: %w", err)
	}
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(literalPage(string(text))), 0o644)
		}
		if err != nil {
			return fmt.Errorf("write the pages of commands: %w", err)
		}
	}
	return nil
}

// mark makes the help of a command, and of all below it, what cobra/doc takes it for:
// Markdown.
func mark(c *cobra.Command) {
	c.Long = marked(c.Long)
	c.InitDefaultHelpFlag()
	for _, flags := range []*pflag.FlagSet{c.LocalNonPersistentFlags(), c.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { f.Usage = literal(f.Usage) })
	}
	for _, child := range c.Commands() {
		mark(child)
	}
}

// marked is a help text in Markdown. A line that begins with a space stays as it is,
// as tables and examples do.
func marked(text string) string {
	var out strings.Builder
	table := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if is := strings.HasPrefix(line, " "); is != table {
			table = is
			out.WriteString("\n")
		}
		if table {
			out.WriteString("    " + line + "\n")
		} else {
			out.WriteString(literal(line) + "\n")
		}
	}
	return out.String()
}

// literal has no sign that means something in Markdown.
func literal(text string) string { return signs.ReplaceAllString(text, `\$0`) }

var signs = regexp.MustCompile("[\\\\`*_{}\\[\\]<>#|~]")

var (
	comments = regexp.MustCompile(`(?s)<!--.*?-->\n*`)
	headings = regexp.MustCompile(`(?m)^##`)
)

// configuration is the reference of the configuration as a page of a manual.
func configuration(text, version string, day time.Time) string {
	_, text, _ = strings.Cut(comments.ReplaceAllString(text, ""), "\n") // without its title
	return fmt.Sprintf(
		"%% \"TRIVET.YAML\" \"5\" %q %q \"Trivet\"\n# NAME\ntrivet.yaml \\- configuration of a trivet peer\n\n# DESCRIPTION\n%s",
		day.Format("Jan 2006"), "trivet "+version, headings.ReplaceAllString(text, "#"))
}
