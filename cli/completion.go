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
	"github.com/trivet-ha/trivet/cli/node"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// completionLimit bounds what a shell waits for after the Tab key. A peer that
// does not answer within it completes nothing.
const completionLimit = 800 * time.Millisecond

// completer lists what an argument may be. done are the arguments before it.
type completer func(ctx context.Context, c *cobra.Command, done []string) []string

// completion has the shell complete what the peers know.
type completion struct {
	term *term.Terminal
	peer term.Peer
}

// completeArguments has the shell complete the arguments of all commands, by the
// word that stands for each in the command's usage, and the flags that name a
// peer or a network interface.
func (p completion) completeArguments(c *cobra.Command) {
	for _, child := range c.Commands() {
		p.completeArguments(child)
	}
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 && !c.HasSubCommands() {
		c.ValidArgsFunction = p.completePositional(term.ArgumentsOf(c))
	}
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { p.completeOption(c, f) })
	if !c.HasParent() {
		term.CompleteWith(c, "peer", p.bounded(p.peerAddresses))
	}
}

// completePositional completes each argument by its name.
func (p completion) completePositional(known []term.Argument) cobra.CompletionFunc {
	return func(c *cobra.Command, done []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(known) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		at := min(len(done), len(known)-1)
		if len(done) >= len(known) && !known[at].Many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if strings.HasPrefix(known[at].Name, "FILE") || known[at].Name == "COMMAND" || known[at].Name == "ARGUMENT" {
			return nil, cobra.ShellCompDirectiveDefault
		}
		list := p.completerOf(c, known[at].Name)
		if list == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.bounded(list)(c, done, begun)
	}
}

// completerOf returns what lists the values of an argument, nil where nothing
// does.
func (p completion) completerOf(c *cobra.Command, argument string) completer {
	kube := strings.HasPrefix(c.CommandPath(), "trivet failover ")
	switch {
	case argument == "PEER":
		return p.peerNames
	case argument == "NODE" && kube:
		return p.kubeNodeNames
	case argument == "NODE":
		return p.ironicNodes
	case argument == "NODE|MAC":
		return p.explainedNodes
	case argument == "INTERFACE":
		return p.nodeInterfaces
	case argument == "PAGE":
		return func(_ context.Context, c *cobra.Command, _ []string) (names []string) {
			for _, page := range manual(c.Root()) {
				names = append(names, page.name)
			}
			return names
		}
	}
	return nil
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
		for _, value := range list(ctx, c, done) {
			word, _, _ := strings.Cut(value, "\t")
			if strings.HasPrefix(word, begun) && !slices.Contains(done, word) && word == term.Printable(word) {
				out = append(out, value)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// peers reads the servers of the log from the peer here; none if it does not
// answer: a completion has no place for errors.
func (p completion) peers(ctx context.Context) []api.Peer {
	var rows []api.Peer
	if err := p.peer.Call(ctx, "GET", "/v1/peers", nil, &rows); err != nil {
		return nil
	}
	return rows
}

func (p completion) peerNames(ctx context.Context, _ *cobra.Command, _ []string) (names []string) {
	for _, r := range p.peers(ctx) {
		names = append(names, cobra.CompletionWithDesc(r.Name, cluster.Role(r)))
	}
	return names
}

func (p completion) peerAddresses(ctx context.Context, _ *cobra.Command, _ []string) (addresses []string) {
	for _, r := range p.peers(ctx) {
		addresses = append(addresses, cobra.CompletionWithDesc(r.Address, r.Name))
	}
	return addresses
}

func (p completion) kubeNodeNames(ctx context.Context, _ *cobra.Command, _ []string) (names []string) {
	var now api.Failover
	if err := p.peer.Call(ctx, "GET", "/v1/failover", nil, &now); err != nil {
		return nil
	}
	for _, n := range now.Nodes {
		names = append(names, cobra.CompletionWithDesc(n.Name, n.Cluster+", ready: "+n.Ready))
	}
	return names
}

// explainedNodes asks the peer here for Ironic's nodes.
func (p completion) explainedNodes(ctx context.Context, _ *cobra.Command, _ []string) []string {
	var list struct {
		Nodes []client.NodeName `json:"nodes"`
	}
	if err := p.peer.Call(ctx, "GET", "/v1/nodes", nil, &list); err != nil {
		return nil
	}
	return nodeWords(list.Nodes)
}

// ironicNodes asks the servers of the API for Ironic's nodes.
func (p completion) ironicNodes(ctx context.Context, c *cobra.Command, _ []string) []string {
	web := p.completionClient(c)
	if web == nil {
		return nil
	}
	all, err := web.NodeNames(ctx)
	if err != nil {
		return nil
	}
	return nodeWords(all)
}

// nodeWords offers nodes by name, and those without one by UUID.
func nodeWords(nodes []client.NodeName) (words []string) {
	for _, n := range nodes {
		if n.Name == "" {
			words = append(words, n.UUID)
			continue
		}
		words = append(words, cobra.CompletionWithDesc(n.Name, n.UUID))
	}
	return words
}

// nodeInterfaces reads the interfaces that an introspection found on the node
// that stands before.
func (p completion) nodeInterfaces(ctx context.Context, c *cobra.Command, done []string) (names []string) {
	web := p.completionClient(c)
	if web == nil || len(done) == 0 {
		return nil
	}
	data, err := web.Stale().Data(ctx, done[0])
	if err != nil {
		return nil
	}
	all, err := node.ParseInterfaces(done[0], data)
	if err != nil {
		return nil
	}
	for _, i := range all {
		names = append(names, cobra.CompletionWithDesc(term.Value(i[node.FieldInterface]), term.Value(i[node.FieldMAC])))
	}
	return names
}

// completionClient is a client for the servers that the flags of c name, nil
// where they do not make one.
func (p completion) completionClient(c *cobra.Command) *client.Client {
	f, ok := servers.Given(p.term, c.Flags())
	if !ok {
		return nil // it has no such flags
	}
	o, err := f.Options()
	if err != nil {
		return nil
	}
	o.Once = true
	web, err := client.New(o)
	if err != nil {
		return nil
	}
	return web
}

// completeOption completes the flag of an option: its values, if it has few, or
// the network interfaces of this host.
func (p completion) completeOption(c *cobra.Command, f *pflag.Flag) {
	option, ok := options.Of(f)
	if _, taken := c.GetFlagCompletionFunc(f.Name); !ok || taken {
		return
	}
	switch words := option.Words(); {
	case len(words) > 0:
		term.Complete(c, f.Name, words...)
	case option.Interfaces():
		term.CompleteWith(c, f.Name, p.bounded(hostInterfaces))
	}
}

// hostInterfaces lists the network interfaces of this host.
func hostInterfaces(context.Context, *cobra.Command, []string) (names []string) {
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names
}
