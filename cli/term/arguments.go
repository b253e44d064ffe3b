package term

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/config"
)

// Argument is one positional argument, as a command's Use line shows it.
type Argument struct {
	Name     string // as "PEER"
	Optional bool   // written in brackets
	Many     bool   // written with dots
}

// ArgumentsOf reads the positional arguments from a Use line such as
// "start NODE…" or "renew NAME --token TOKEN [flags]". Flags there have a value.
func ArgumentsOf(c *cobra.Command) []Argument {
	var out []Argument
	words := strings.Fields(c.Use)[1:]
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "--" || word == "[flags]":
			continue
		case strings.HasPrefix(word, "--"):
			i++ // its value
			continue
		}
		name := strings.TrimRight(word, "….")
		a := Argument{Name: name, Many: name != word, Optional: strings.HasPrefix(name, "[")}
		if a.Optional {
			a.Name = strings.Trim(name, "[]")
		}
		out = append(out, a)
	}
	return out
}

// Understand has c and all commands below it take the arguments that their Use
// lines show, and name in a refusal the one that is missing or too many. Args of a
// command that says more comes first.
func Understand(c *cobra.Command) {
	for _, child := range c.Commands() {
		Understand(child)
	}
	if c.HasSubCommands() || !c.HasParent() {
		return
	}
	judge := c.Args
	c.Args = func(c *cobra.Command, given []string) error {
		if judge == nil {
			return argumentError(c, given)
		}
		err := judge(c, given)
		if _, said := errors.AsType[*Failure](err); err == nil || said {
			return err
		}
		return cmp.Or(argumentError(c, given), Fail(ExitUsage, UsageHint(c), "%s: %w", c.CommandPath(), err))
	}
}

// argumentError is nil where the arguments are as many as the Use line shows.
func argumentError(c *cobra.Command, given []string) error {
	known := ArgumentsOf(c)
	var missing []string
	for i, a := range known {
		if i >= len(given) && !a.Optional {
			missing = append(missing, a.Name)
		}
	}
	many := len(known) > 0 && known[len(known)-1].Many
	switch {
	case len(missing) > 0:
		return Fail(ExitUsage, UsageHint(c), "%s: missing %s", c.CommandPath(), strings.Join(missing, " and "))
	case len(given) > len(known) && !many:
		return Fail(ExitUsage, UsageHint(c), "%s: unexpected argument %q", c.CommandPath(), given[len(known)])
	}
	return nil
}

// UsageHint says how a command is written, and where to read more.
func UsageHint(c *cobra.Command) string {
	return fmt.Sprintf("usage: %s; see '%s --help'", c.UseLine(), c.CommandPath())
}

// FlagError refuses a flag that a command does not have, and names the nearest one that it
// has, or its value.
func FlagError(c *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && len(unknown.GetSpecifiedName()) > 1 {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := config.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			return Fail(ExitUsage, fmt.Sprintf("did you mean --%s? %s", near, UsageHint(c)), "%s: %w", c.CommandPath(), err)
		}
	}
	return Fail(ExitUsage, UsageHint(c), "%s: %w", c.CommandPath(), err)
}

// GoneFlag has a command answer a flag of an earlier release with what to do instead.
func GoneFlag(c *cobra.Command, name, instead string) {
	c.Flags().BoolFunc(name, "of an earlier release", func(string) error {
		return errors.New("there is no such flag any more: " + instead)
	})
	c.Flags().Lookup(name).Hidden = true
}
