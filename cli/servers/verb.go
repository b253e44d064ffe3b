package servers

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/client"
)

// Verb is a command that asks the API one question, whose answer is an A.
type Verb[A any] struct {
	Use, Short, Long, Example string

	Stale bool // it has --stale
	Ask   func(ctx context.Context, web *client.Client, args []string) (A, error)
	Show  func(answer A) error // nil: nothing is said
}

// Command makes the command.
func (v Verb[A]) Command(f *Flags) *cobra.Command {
	c := &cobra.Command{Use: v.Use, Short: v.Short, Long: v.Long, Example: v.Example}
	var stale bool
	if v.Stale {
		StaleFlag(c, &stale)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		web, err := f.Reader(stale)
		if err != nil {
			return err
		}
		answer, err := v.Ask(c.Context(), web, args)
		if err != nil || v.Show == nil {
			return err
		}
		return v.Show(answer)
	}
	return c
}
