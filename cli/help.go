package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/term"
)

// helpCommand is cobra's, but a word that is no command is an error.
func helpCommand(root *cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:     "help [COMMAND]…",
		Short:   "Print the help of a command, or of all",
		Example: "trivet help\ntrivet help introspection start",
		ValidArgsFunction: func(_ *cobra.Command, words []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := root.Find(words)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return term.Each(shown(at), func(child *cobra.Command) string {
				return cobra.CompletionWithDesc(child.Name(), child.Short)
			}), cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.RunE = func(_ *cobra.Command, words []string) error {
		at := root
		for _, word := range words {
			commands := at.Commands()
			i := slices.IndexFunc(commands, func(c *cobra.Command) bool { return c.Name() == word || c.HasAlias(word) })
			if i < 0 {
				hint := fmt.Sprintf("see '%s --help'", at.CommandPath())
				if near := at.SuggestionsFor(word); len(near) > 0 {
					hint = fmt.Sprintf("did you mean %s? %s", strings.Join(near, ", or "), hint)
				}
				return term.Fail(term.ExitUsage, hint, "help: %s has no command %q", at.CommandPath(), word)
			}
			at = commands[i]
		}
		at.InitDefaultHelpFlag()
		return at.Help()
	}
	return c
}

// helpWidth is how wide a help text may be, in columns.
const helpWidth = 80

// present lays out the help of a command and all below it. Manual pages show the same.
func present(c *cobra.Command) {
	c.Long = filled(c.Long)
	ofCobra := map[string]string{
		"trivet completion":            "trivet completion bash > /etc/bash_completion.d/trivet",
		"trivet completion bash":       "source <(trivet completion bash)",
		"trivet completion zsh":        "trivet completion zsh > ~/.zfunc/_trivet",
		"trivet completion fish":       "trivet completion fish | source",
		"trivet completion powershell": "trivet completion powershell | Out-String | Invoke-Expression",
	}
	if text := ofCobra[c.CommandPath()]; text != "" {
		c.Example = text
	}
	if c.Example != "" && !strings.HasPrefix(c.Example, "  ") {
		c.Example = term.Indented(c.Example)
	}
	for _, child := range c.Commands() {
		present(child)
	}
}

// filled breaks the lines of paragraphs at helpWidth. A line that begins with space
// stays as it is.
func filled(text string) string {
	var out strings.Builder
	column := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, " ") {
			if column > 0 {
				out.WriteByte('\n')
			}
			out.WriteString(line + "\n")
			column = 0
			continue
		}
		for _, word := range strings.Fields(line) {
			width := utf8.RuneCountInString(word)
			switch {
			case column > 0 && column+1+width > helpWidth:
				out.WriteByte('\n')
				column = 0
			case column > 0:
				out.WriteByte(' ')
				column++
			}
			out.WriteString(word)
			column += width
		}
	}
	return strings.TrimSpace(out.String())
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
