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
	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/config"
)

// completionLimit bounds what a shell waits for after the Tab key. A peer that
// does not answer within it completes nothing.
const completionLimit = 800 * time.Millisecond

// completer lists what an argument may be. done are the arguments before it.
type completer func(ctx context.Context, c *cobra.Command, done []string) []string

// completeArguments has the shell complete the arguments of all commands, by the
// word that stands for each in the command's usage, and the flags that name a
// peer or a network interface.
func (p *program) completeArguments(c *cobra.Command) {
	for _, child := range c.Commands() {
		p.completeArguments(child)
	}
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 && !c.HasSubCommands() {
		c.ValidArgsFunction = p.completePositional(argumentsOf(c))
	}
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { p.completeOption(c, f) })
	if !c.HasParent() {
		completeWith(c, "peer", p.bounded(p.peerAddresses))
	}
}

// completePositional completes each argument by its name.
func (p *program) completePositional(known []argument) cobra.CompletionFunc {
	return func(c *cobra.Command, done []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(known) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		at := min(len(done), len(known)-1)
		if len(done) >= len(known) && !known[at].many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if strings.HasPrefix(known[at].name, "FILE") || known[at].name == "COMMAND" || known[at].name == "ARGUMENT" {
			return nil, cobra.ShellCompDirectiveDefault
		}
		list := p.completerOf(c, known[at].name)
		if list == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.bounded(list)(c, done, begun)
	}
}

// completerOf returns what lists the values of an argument, nil where nothing
// does.
func (p *program) completerOf(c *cobra.Command, argument string) completer {
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
func (p *program) bounded(list completer) cobra.CompletionFunc {
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
			if strings.HasPrefix(word, begun) && !slices.Contains(done, word) && word == printable(word) {
				out = append(out, value)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// peers reads the servers of the log from the peer here; none if it does not
// answer: a completion has no place for errors.
func (p *program) peers(ctx context.Context) []api.Peer {
	var rows []api.Peer
	if err := p.peer().call(ctx, "GET", "/v1/peers", nil, &rows); err != nil {
		return nil
	}
	return rows
}

func (p *program) peerNames(ctx context.Context, _ *cobra.Command, _ []string) (names []string) {
	for _, r := range p.peers(ctx) {
		names = append(names, cobra.CompletionWithDesc(r.Name, role(r)))
	}
	return names
}

func (p *program) peerAddresses(ctx context.Context, _ *cobra.Command, _ []string) (addresses []string) {
	for _, r := range p.peers(ctx) {
		addresses = append(addresses, cobra.CompletionWithDesc(r.Address, r.Name))
	}
	return addresses
}

func (p *program) kubeNodeNames(ctx context.Context, _ *cobra.Command, _ []string) (names []string) {
	var now api.Failover
	if err := p.peer().call(ctx, "GET", "/v1/failover", nil, &now); err != nil {
		return nil
	}
	for _, n := range now.Nodes {
		names = append(names, cobra.CompletionWithDesc(n.Name, n.Cluster+", ready: "+n.Ready))
	}
	return names
}

// explainedNodes asks the peer here for Ironic's nodes.
func (p *program) explainedNodes(ctx context.Context, _ *cobra.Command, _ []string) []string {
	var list struct {
		Nodes []client.NodeName `json:"nodes"`
	}
	if err := p.peer().call(ctx, "GET", "/v1/nodes", nil, &list); err != nil {
		return nil
	}
	return nodeWords(list.Nodes)
}

// ironicNodes asks the servers of the API for Ironic's nodes.
func (p *program) ironicNodes(ctx context.Context, c *cobra.Command, _ []string) []string {
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
func (p *program) nodeInterfaces(ctx context.Context, c *cobra.Command, done []string) (names []string) {
	web := p.completionClient(c)
	if web == nil || len(done) == 0 {
		return nil
	}
	data, err := web.Stale().Data(ctx, done[0])
	if err != nil {
		return nil
	}
	all, err := parseInterfaces(done[0], data)
	if err != nil {
		return nil
	}
	for _, i := range all {
		names = append(names, cobra.CompletionWithDesc(shownValue(i[fieldInterface]), shownValue(i[fieldMAC])))
	}
	return names
}

// completionClient is a client for the servers that the flags of c name, nil
// where they do not make one.
func (p *program) completionClient(c *cobra.Command) *client.Client {
	f := &webFlags{}
	flags := c.Flags()
	var err error
	if f.servers, err = flags.GetStringSlice("server"); err != nil {
		return nil // it has no such flags
	}
	for name, into := range map[string]*string{"credentials": &f.credentials, "cacert": &f.cacert, "os-token": &f.token} {
		if *into, err = flags.GetString(name); err != nil {
			return nil
		}
	}
	o, err := p.webOptions(f)
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
func (p *program) completeOption(c *cobra.Command, f *pflag.Flag) {
	value, ok := f.Value.(*optionValue)
	if !ok {
		return
	}
	option, ok := config.Lookup(value.key)
	if _, taken := c.GetFlagCompletionFunc(f.Name); !ok || taken {
		return
	}
	switch words := option.Words(); {
	case len(words) > 0:
		complete(c, f.Name, words...)
	case option.Interfaces():
		completeWith(c, f.Name, p.bounded(hostInterfaces))
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

// completeWith has f complete a flag.
func completeWith(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic("cli: " + err.Error()) // a slip in this package; any test finds it
	}
}
