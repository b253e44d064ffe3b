package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// Rule is 'trivet rule'.
func Rule(t *term.Terminal, local func(login bool) (string, error)) *cobra.Command {
	flags := pflag.NewFlagSet("rule", pflag.ContinueOnError)
	f := servers.New(t, local, flags)
	list := servers.Verb[[]client.RuleHead]{
		Use:     "list",
		Short:   "List the rules in the order in which they are applied",
		Example: "trivet rule list",
		Stale:   true,
		Ask: func(ctx context.Context, web *client.Client, _ []string) ([]client.RuleHead, error) {
			return web.Rules(ctx)
		},
		Show: func(rules []client.RuleHead) error {
			type row struct {
				UUID, Description string
				Scope             string `col:"wide"`
			}
			return t.Show(rules, term.Each(rules, func(r client.RuleHead) row {
				return row{term.Printable(r.UUID), shownText(r.Description), shownText(r.Scope)}
			}))
		},
	}.Command(f)
	c := term.Group("rule", "Import and list introspection rules", ruleImport(t, f), list,
		ofOriginal("rule show"), ofOriginal("rule delete"), ofOriginal("rule purge"))
	c.Long = "Import and list introspection rules, through the API of any peer; 'baremetal introspection rule' shows and deletes them.\n" +
		"A rule does something to a node in Ironic when the data of an introspection meets its conditions. Rules are applied in the order of their creation."
	c.PersistentFlags().AddFlagSet(flags)
	return c
}

func shownText(text *string) string {
	if text == nil {
		return "-"
	}
	return term.Dash(term.Printable(*text))
}

// imported is what became of one rule of a file.
type imported struct {
	Rule        int    `json:"rule"`   // its place in the file, from 1
	Result      string `json:"result"` // imported, refused, unknown or not_asked
	UUID        string `json:"uuid,omitempty"`
	Description string `json:"description,omitempty"`
	Error       string `json:"error,omitempty"`
}

const resultImported = "imported" // the rule is there

func ruleImport(t *term.Terminal, f *servers.Flags) *cobra.Command {
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Create the rules of a file",
		Long: "Create the rules of a JSON or YAML file, which holds one rule or a list of them; - is standard input.\n" +
			"They are created in their order, which is the order in which they are applied. The first that is refused ends it: what is printed tells\n" +
			"for each rule whether it was imported.",
		Example: "trivet rule import rules.json",
	}
	var dry bool
	term.DryRunFlag(c, &dry)
	c.RunE = func(c *cobra.Command, args []string) error {
		text, err := t.ReadInput(args[0], maxRuleFile)
		if err != nil {
			return term.Usage("%w", err)
		}
		rules, err := parseRules(text)
		if err != nil {
			return term.Usage("%s: %w", args[0], err)
		}
		if !dry {
			return importRules(c.Context(), t, f, rules)
		}
		errs, err := f.DryRun(c.Context(), "rules",
			term.Each(rules, func(rule any) client.Change { return client.Change{CreateRule: rule} }))
		for i, refused := range errs {
			if refused != nil {
				return errors.Join(err, &term.Failure{Code: term.ExitOf(refused), Hint: term.HintOf(refused),
					Err: fmt.Errorf("rule %d of %d: %w", i+1, len(rules), refused)})
			}
		}
		return err
	}
	return c
}

// importRules creates rules in turn up to the first that is refused, and prints what became of
// each; -o name prints those that are there.
func importRules(ctx context.Context, t *term.Terminal, f *servers.Flags, rules []any) error {
	web, err := f.Client()
	if err != nil {
		return err
	}
	rows := make([]imported, len(rules))
	for i := range rows {
		rows[i] = imported{Rule: i + 1, Result: resultNotAsked, Description: description(rules[i])}
	}
	var refused error
	for i := range rows {
		rule, err := web.CreateRule(ctx, rules[i])
		if err == nil {
			rows[i].Result, rows[i].UUID = resultImported, rule.UUID
			continue
		}
		rows[i].Error, rows[i].Result = err.Error(), resultRefused
		if none, ok := errors.AsType[*client.NoAnswerError](err); ok && none.Arrived() {
			rows[i].Result = resultUnknown
		}
		hint := term.HintOf(err)
		if i > 0 {
			hint += fmt.Sprintf("; the %d before it are imported: leave them out when you import the rest", i)
		}
		refused = &term.Failure{Code: term.ExitOf(err), Err: fmt.Errorf("rule %d of %d: %w", i+1, len(rows), err), Hint: hint}
		break
	}
	if t.Format == "name" {
		rows = slices.DeleteFunc(rows, func(r imported) bool { return r.Result != resultImported })
	}
	type row struct {
		Key                             string `col:"name"`
		Rule, Result, UUID, Description string
		Error                           string `col:"wide"`
	}
	return errors.Join(t.Show(rows, term.Each(rows, func(r imported) row {
		return row{r.UUID, fmt.Sprint(r.Rule), r.Result, term.Printable(r.UUID), term.Printable(r.Description),
			t.Clip(r.Error)}
	})), refused)
}

// description is that of a rule as it stands in a file, "" for none.
func description(rule any) string {
	fields, _ := rule.(map[string]any)
	text, _ := fields["description"].(string)
	return text
}
