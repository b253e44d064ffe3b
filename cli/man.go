package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
)

// page is one manual page.
type page struct {
	name    string // as in "trivet-init"
	section int
	text    string // roff, for man(1)
}

func (p *program) manCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "man [PAGE]",
		Short: "Print a manual page, or write them all",
		Long: "Print a manual page for 'man -l -': trivet, one for each command, as trivet-init, and trivet.yaml for the configuration.\n" +
			"With --dir write all of them into a directory; packages do that. What they say is what --help and the template say.",
		Example: "trivet man trivet-join | man -l -\ntrivet man --dir /usr/local/share/man/man1",
	}
	c.Flags().StringVar(&dir, "dir", "", "write every page into this directory")
	c.RunE = func(c *cobra.Command, args []string) error {
		pages := manual(c.Root())
		if dir != "" {
			return writePages(dir, pages)
		}
		name := append(args, "trivet")[0]
		for _, page := range pages {
			if page.name == name {
				_, err := fmt.Fprint(p.Out, page.text)
				return err
			}
		}
		return term.Fail(term.ExitNotFound, "'trivet help' lists the commands; the page of one is trivet-COMMAND", "there is no manual page %q", name)
	}
	return c
}

func writePages(dir string, pages []page) error {
	for _, page := range pages {
		path := filepath.Join(dir, fmt.Sprintf("%s.%d", page.name, page.section))
		if err := os.WriteFile(path, []byte(page.text), 0o644); err != nil {
			return term.Fail(term.ExitFailed, "--dir names a directory that exists", "write manual pages: %w", err)
		}
	}
	return nil
}

// manual makes every page there is.
func manual(root *cobra.Command) []page {
	source, date := thisBuild().Version, commitDate()
	pages := []page{
		{"trivet", 1, rootPage(root, newRoff("trivet", 1, date, source))},
		{"trivet.yaml", 5, configPage(newRoff("trivet.yaml", 5, date, source))},
	}
	for _, c := range shown(root) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		pages = append(pages, page{name, 1, commandPage(c, newRoff(name, 1, date, source))})
	}
	return pages
}

// commitDate is the day of the commit this binary was built from: of all dates
// the one that two builds agree on.
func commitDate() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			day, _, _ := strings.Cut(s.Value, "T")
			return day
		}
	}
	return ""
}

// shown are the commands below one that its help lists.
func shown(c *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			list = append(list, child)
		}
	}
	return list
}

func rootPage(root *cobra.Command, r *roff) string {
	r.heading("NAME").text("trivet - " + lower(root.Short))
	r.heading("SYNOPSIS").text("trivet COMMAND [ARGUMENT]... [--FLAG]...")
	about, codes, _ := strings.Cut(root.Long, term.ExitCodes)
	r.heading("DESCRIPTION").text(about)
	r.heading("COMMANDS")
	for _, g := range root.Groups() {
		r.subheading(strings.TrimSuffix(g.Title, ":"))
		for _, c := range shown(root) {
			if c.GroupID == g.ID {
				r.item("trivet-"+c.Name()+"(1)", c.Short)
			}
		}
	}
	r.heading("FLAGS OF EVERY COMMAND").flags(root.PersistentFlags())
	r.heading("EXAMPLES").text(root.Example)
	r.heading("EXIT STATUS").text(strings.TrimPrefix(term.ExitCodes, "Exit codes:\n") + codes)
	r.heading("FILES")
	r.item(options.DefaultFile, "The configuration: trivet.yaml(5).")
	r.item(config.Default().DataDir, "Log, snapshots and certificate of the peer. Copying it by hand is no backup: 'trivet snapshot save' is.")
	r.item(config.Default().Socket, "Where the commands on this host reach the peer.")
	r.heading("SEE ALSO").text("trivet.yaml(5), trivet-init(1), trivet-join(1), trivet-serve(1), trivet-status(1)")
	return r.String()
}

func commandPage(c *cobra.Command, r *roff) string {
	r.heading("NAME").text(strings.ReplaceAll(c.CommandPath(), " ", "-") + " - " + lower(c.Short))
	r.heading("SYNOPSIS")
	children := shown(c)
	if len(children) == 0 {
		r.text(c.UseLine())
	}
	for _, child := range children {
		r.text(child.UseLine()).lineBreak()
	}
	r.heading("DESCRIPTION").text(longOf(c))
	if c.HasAvailableLocalFlags() {
		r.heading("FLAGS").flags(c.LocalNonPersistentFlags())
	}
	if len(children) > 0 {
		r.heading("COMMANDS")
	}
	for _, child := range children {
		r.subheading(child.CommandPath()).text(longOf(child)).flags(child.LocalNonPersistentFlags())
	}
	r.heading("EXAMPLES").examples(c, children)
	r.heading("EXIT STATUS").text("As of every command: see trivet(1).")
	r.heading("SEE ALSO").text("trivet(1), trivet.yaml(5)")
	return r.String()
}

func longOf(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

// examples writes those of a command and of the commands below it, to any depth.
func (r *roff) examples(c *cobra.Command, children []*cobra.Command) {
	if c.Example != "" {
		r.text(c.Example)
	}
	for _, child := range children {
		r.examples(child, shown(child))
	}
}

// lower begins a summary in lower case, as manual pages do; a name stays.
func lower(text string) string {
	if len(text) < 2 || text[1] < 'a' || text[1] > 'z' {
		return text
	}
	return strings.ToLower(text[:1]) + text[1:]
}

func configPage(r *roff) string {
	r.heading("NAME").text("trivet.yaml - configuration of a trivet peer")
	r.heading("SYNOPSIS").text(options.DefaultFile)
	r.heading("DESCRIPTION").text("YAML: a mapping of sections. A value comes from the first of: flag, TRIVET_ variable, file, default. " +
		"Unknown keys are errors, and all that is wrong is said at once: 'trivet config check'. " +
		"'trivet config template' prints a commented file, 'trivet config show --effective' every value and where it came from.")
	for _, s := range config.Sections() {
		title := s.Name
		if title == "" {
			title = "Keys at the top"
		}
		r.subheading(title).text(s.Help)
		for _, o := range config.Options() {
			if section, _, name := cutLast(o.Key); section == s.Name {
				r.item(name+" ("+o.Type()+")", optionText(o))
			}
		}
	}
	r.heading("SEE ALSO").text("trivet(1), trivet-config(1)")
	return r.String()
}

// cutLast splits a key into its section and its name.
func cutLast(key string) (section, dot, name string) {
	i := strings.LastIndexByte(key, '.')
	if i < 0 {
		return "", "", key
	}
	return key[:i], ".", key[i+1:]
}

func optionText(o config.Option) string {
	text := o.Help
	if o.Bounds() != "" {
		text += " Allowed: " + o.Bounds() + "."
	}
	if o.Default != "" {
		text += " Default: " + o.Default + "."
	}
	return text + " Variable: " + o.Env() + "."
}

// flags writes the flags that the help lists.
func (r *roff) flags(set *pflag.FlagSet) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		words := "--" + f.Name
		if f.Shorthand != "" {
			words = "-" + f.Shorthand + ", " + words
		}
		if value != "" {
			words += " " + value
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			usage += " (default " + f.DefValue + ")"
		}
		r.item(words, usage)
	})
}
