package cli

import (
	"context"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/cluster"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
)

// completionLimit bounds what a shell waits for after the Tab key. A peer that
// does not answer within it completes nothing.
const completionLimit = 800 * time.Millisecond

// completer lists what an argument may be.
type completer func(ctx context.Context) []string

// completion has the shell complete what is known on this host: words, the network's
// interfaces, and the peers, of which the one that runs here tells through its socket.
type completion struct{ peer term.Peer }

// completeArguments has the shell complete the arguments of all commands, by the
// word that stands for each in the command's usage, and the flags that name a peer,
// a network interface, or one of a few values.
func (p completion) completeArguments(c *cobra.Command) {
	for _, child := range c.Commands() {
		p.completeArguments(child)
	}
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 && !c.HasSubCommands() {
		c.ValidArgsFunction = p.completePositional(term.ArgumentsOf(c))
	}
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		option, ok := options.Of(f)
		if _, taken := c.GetFlagCompletionFunc(f.Name); !ok || taken {
			return
		}
		switch words := option.Words(); {
		case len(words) > 0:
			term.Complete(c, f.Name, words...)
		case option.Interfaces():
			term.CompleteWith(c, f.Name, p.bounded(func(context.Context) []string {
				all, _ := net.Interfaces() // none where that fails
				return term.Each(all, func(i net.Interface) string { return i.Name })
			}))
		}
	})
	if !c.HasParent() {
		term.CompleteWith(c, "peer", p.bounded(p.peers(func(r api.Peer) string {
			return cobra.CompletionWithDesc(r.Address, r.Name)
		})))
	}
}

// completePositional completes each argument by its name.
func (p completion) completePositional(known []term.Argument) cobra.CompletionFunc {
	return func(c *cobra.Command, done []string, begun string) ([]string, cobra.ShellCompDirective) {
		at := min(len(done), len(known)-1)
		if at < 0 || len(done) >= len(known) && !known[at].Many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		switch name := known[at].Name; {
		case strings.HasPrefix(name, "FILE"), name == "COMMAND", name == "ARGUMENT":
			return nil, cobra.ShellCompDirectiveDefault
		case name == "PEER":
			return p.bounded(p.peers(func(r api.Peer) string {
				return cobra.CompletionWithDesc(r.Name, cluster.Role(r))
			}))(c, done, begun)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// bounded makes a cobra function of a completer. What is in the command line
// already is not offered again.
func (p completion) bounded(list completer) cobra.CompletionFunc {
	return func(c *cobra.Command, done []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionLimit)
		defer cancel()
		var out []string
		for _, value := range list(ctx) {
			word, _, _ := strings.Cut(value, "\t")
			if strings.HasPrefix(word, begun) && !slices.Contains(done, word) && word == term.Printable(word) {
				out = append(out, value)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// peers has the servers of the log listed, each as one says, by the peer here; none if
// it does not answer: a completion has no place for errors.
func (p completion) peers(one func(api.Peer) string) completer {
	return func(ctx context.Context) []string {
		var rows []api.Peer
		if err := p.peer.Call(ctx, "GET", "/v1/peers", nil, &rows); err != nil {
			return nil
		}
		return term.Each(rows, one)
	}
}
