package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// argument is one positional argument, as a command's Use line shows it.
type argument struct {
	name     string // as "PEER"
	optional bool   // written in brackets
	many     bool   // written with dots
}

// argumentsOf reads the positional arguments from a Use line such as
// "start NODE…" or "renew NAME --token TOKEN [flags]". Flags there have a value.
func argumentsOf(c *cobra.Command) []argument {
	var out []argument
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
		a := argument{name: name, many: name != word, optional: strings.HasPrefix(name, "[")}
		if a.optional {
			a.name = strings.Trim(name, "[]")
		}
		out = append(out, a)
	}
	return out
}

// nameArguments makes refusals of arguments, on c and all commands below it,
// name the argument that is missing or too many; cobra only counts.
func nameArguments(c *cobra.Command) {
	for _, child := range c.Commands() {
		nameArguments(child)
	}
	judge := c.Args
	if judge == nil || c.HasSubCommands() || !c.HasParent() {
		return
	}
	c.Args = func(c *cobra.Command, given []string) error {
		err := judge(c, given)
		var said *Failure
		if err == nil || errors.As(err, &said) {
			return err
		}
		return argumentError(c, given, err)
	}
}

func argumentError(c *cobra.Command, given []string, err error) error {
	known := argumentsOf(c)
	var missing []string
	for i, a := range known {
		if i >= len(given) && !a.optional {
			missing = append(missing, a.name)
		}
	}
	switch {
	case len(missing) > 0:
		return fail(ExitUsage, usageHint(c), "%s: missing %s", c.CommandPath(), strings.Join(missing, " and "))
	case len(given) > len(known):
		return fail(ExitUsage, usageHint(c), "%s: unexpected argument %q", c.CommandPath(), given[len(known)])
	default:
		return fail(ExitUsage, usageHint(c), "%s: %w", c.CommandPath(), err)
	}
}

// usageHint says how a command is written, and where to read more.
func usageHint(c *cobra.Command) string {
	return fmt.Sprintf("usage: %s; see '%s --help'", c.UseLine(), c.CommandPath())
}

// flagError refuses a flag that a command does not have, or its value.
func flagError(c *cobra.Command, err error) error {
	return fail(ExitUsage, usageHint(c), "%s: %w", c.CommandPath(), err)
}

// helpCommand is cobra's, but a word that is no command is an error.
func (p *program) helpCommand(root *cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   "help [COMMAND]…",
		Short: "Print the help of a command, or of all",
		ValidArgsFunction: func(_ *cobra.Command, words []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := root.Find(words)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, child := range shown(at) {
				names = append(names, cobra.CompletionWithDesc(child.Name(), child.Short))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.RunE = func(_ *cobra.Command, words []string) error {
		at := root
		for _, word := range words {
			next := childOf(at, word)
			if next == nil {
				hint := fmt.Sprintf("see '%s --help'", at.CommandPath())
				if near := at.SuggestionsFor(word); len(near) > 0 {
					hint = fmt.Sprintf("did you mean %s? %s", strings.Join(near, ", or "), hint)
				}
				return fail(ExitUsage, hint, "help: %s has no command %q", at.CommandPath(), word)
			}
			at = next
		}
		at.InitDefaultHelpFlag()
		return at.Help()
	}
	return c
}

// childOf returns the command that word names below c, nil if there is none.
func childOf(c *cobra.Command, word string) *cobra.Command {
	for _, child := range c.Commands() {
		if child.Name() == word || child.HasAlias(word) {
			return child
		}
	}
	return nil
}
