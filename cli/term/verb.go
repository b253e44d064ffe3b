package term

import (
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Verb is a command that asks the peer one question, whose answer is an A.
type Verb[A any] struct {
	Use, Short, Long, Example string

	Method string
	Path   string // {NODE} in it stands for the argument of that name
	Input  func(args []string) any
	Limit  time.Duration                       // of the call; 0: AnswerLimit
	Stale  bool                                // it has --stale
	Others bool                                // it asks the other peers, too, and has --local
	Show   func(answer A, args []string) error // nil: nothing is said
	Dry    *Terminal                           // it has --dry-run, which is shown there
	Of     string                              // what a dry run tells of
}

// Command makes the command.
func (v Verb[A]) Command(peer Peer) *cobra.Command {
	c := &cobra.Command{Use: v.Use, Short: v.Short, Long: v.Long, Example: v.Example}
	var stale, local, dry bool
	if v.Dry != nil {
		DryRunFlag(c, &dry)
	}
	if v.Stale {
		StaleFlag(c, &stale)
	}
	if v.Others {
		c.Flags().BoolVar(&local, "local", false, "ask no other peer")
	}
	if v.Limit > 0 {
		peer = peer.Within(v.Limit)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		var in any
		if v.Input != nil {
			in = v.Input(args)
		}
		if dry {
			return v.Dry.DryRun(c.Context(), peer, v.Of, v.Method, filled(v.Path, ArgumentsOf(c), args), in)
		}
		var answer A
		var out any = &answer
		if _, none := out.(*None); none {
			out = nil
		}
		path := OnAll(Stale(filled(v.Path, ArgumentsOf(c), args), stale), v.Others && !local)
		if err := peer.Call(c.Context(), v.Method, path, in, out); err != nil || v.Show == nil {
			return err
		}
		return v.Show(answer, args)
	}
	return c
}

// filled puts the arguments into a path.
func filled(path string, known []Argument, args []string) string {
	path, query, asks := strings.Cut(path, "?")
	for i, a := range known {
		value := ""
		if i < len(args) {
			value = args[i]
		}
		path = strings.ReplaceAll(path, "{"+a.Name+"}", url.PathEscape(value))
		query = strings.ReplaceAll(query, "{"+a.Name+"}", url.QueryEscape(value))
	}
	if asks {
		return path + "?" + query
	}
	return path
}

// None is no answer.
type None struct{}

// Said is the Show of a verb that only changes something: it says so, with the
// arguments in the format.
func (t *Terminal) Said(format string) func(None, []string) error {
	return func(_ None, args []string) error {
		t.Say(format, Each(args, func(arg string) any { return arg })...)
		return nil
	}
}
