package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/app"
)

// consent is how somebody says twice that the majority is lost for ever.
type consent struct {
	lost    bool   // --yes-i-lost-the-majority
	confirm string // --confirm: the name of the peer that goes on
}

const lostForEver = "lost for ever"

func (p *program) recoverCommand() *cobra.Command {
	var yes consent
	var dry bool
	c := &cobra.Command{
		Use:   "recover",
		Short: "Go on with this peer alone after a majority was lost for ever",
		Long: "Make this peer, which must be stopped, the only one of its cluster, for the day on which a majority of the peers is lost for ever.\n" +
			"Whatever only the lost ones knew is gone. Every token, lease and join token granted before is void. The others stop by themselves if they come back and meet this peer.\n\n" +
			"It cannot be fenced: if the others merely seem to be gone and run on, two clusters act on the same machines until they meet. So it asks twice; " +
			"without a terminal, give --yes-i-lost-the-majority and --confirm NAME, the name of this peer.",
		Args: cobra.NoArgs,
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would happen")
	c.Flags().BoolVar(&yes.lost, "yes-i-lost-the-majority", false, "the other peers are lost for ever and will not be started again")
	c.Flags().StringVar(&yes.confirm, "confirm", "", "the name of this peer")
	p.optionFlags(c)
	c.RunE = func(*cobra.Command, []string) error { return p.recover(yes, dry) }
	return c
}

func (p *program) recover(yes consent, dry bool) (err error) {
	conf, err := p.load()
	if err != nil {
		return err
	}
	if _, _, err := app.Peek(conf.DataDir); err != nil {
		return dirError(err) // before the directory is made
	}
	dir, err := openDir(conf.DataDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	defer func() { err = errors.Join(err, handOver(conf.DataDir)) }()
	host := p.host(conf)
	plan, err := host.Recover(dir, true)
	if err != nil {
		return dirError(err)
	}
	if dry {
		p.say("dry run: nothing was changed")
		return p.printRecovery(plan)
	}
	if err := p.askTwice(plan, yes); err != nil {
		return err
	}
	done, err := host.Recover(dir, false)
	if err != nil {
		return dirError(err)
	}
	p.say("%s goes on alone. Next: 'trivet serve' here, then 'trivet token create' for new peers", done.Self.Name)
	return p.printRecovery(done)
}

// askTwice makes sure that somebody means it: by two flags or two answers.
func (p *program) askTwice(plan *app.Recovery, yes consent) error {
	name := plan.Self.Name
	if yes.lost && yes.confirm == name {
		return nil
	}
	if yes.confirm != "" && yes.confirm != name {
		return usage("--confirm %s: this peer is called %s", yes.confirm, name)
	}
	if !isTerminal(p.in) {
		return fail(ExitUsage, fmt.Sprintf("look first: 'trivet recover --dry-run'; then 'trivet recover --yes-i-lost-the-majority --confirm %s'", name),
			"recover: this cannot be undone, and nobody is here to ask")
	}
	in := bufio.NewReader(p.in)
	fmt.Fprintf(p.errw, "This peer, %s, will be the only one of cluster %s. Gone are: %s.\n", name, plan.Self.Cluster, lostNames(plan))
	if err := p.demand(in, "If none of them runs or will ever be started again, type: ", lostForEver); err != nil {
		return err
	}
	return p.demand(in, "To go on with this peer alone, type its name: ", name)
}

func (p *program) demand(in *bufio.Reader, question, want string) error {
	fmt.Fprint(p.errw, question)
	if want == lostForEver {
		fmt.Fprint(p.errw, want+"\n> ")
	}
	answer, err := in.ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != want {
		return fail(ExitUsage, "nothing was changed", "recover: that was not the answer asked for")
	}
	return nil
}

func lostNames(plan *app.Recovery) string {
	if len(plan.Lost) == 0 {
		return "none, this peer is the only member already"
	}
	names := make([]string, len(plan.Lost))
	for i, m := range plan.Lost {
		names[i] = fmt.Sprintf("%s (%s)", m.Name, m.Address)
	}
	return strings.Join(names, ", ")
}

// recovery is app.Recovery for scripts.
type recovery struct {
	Peer        string   `json:"peer"`
	Cluster     string   `json:"cluster_id"`
	Incarnation uint64   `json:"incarnation"`
	LastIndex   uint64   `json:"last_index"`
	Base        string   `json:"token_base"`
	Lost        []string `json:"lost"`
}

func (p *program) printRecovery(r *app.Recovery) error {
	out := recovery{
		Peer: r.Self.Name, Cluster: r.Self.Cluster, Incarnation: r.Incarnation, LastIndex: r.Last,
		Base: fmt.Sprint(r.Base), Lost: []string{},
	}
	for _, m := range r.Lost {
		out.Lost = append(out.Lost, m.Name)
	}
	switch p.format {
	case "json", "yaml":
		return document(p.out, p.format, out)
	case "name":
		fmt.Fprintln(p.out, out.Peer)
		return nil
	}
	fmt.Fprintf(p.out, "peer         %s\ncluster      %s\nincarnation  %d\nlog up to    %d\ntokens from  %s\nlost         %s\n",
		out.Peer, out.Cluster, out.Incarnation, out.LastIndex, out.Base, lostNames(r))
	return nil
}

// isTerminal says whether somebody sits at the other end of in.
func isTerminal(in any) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
