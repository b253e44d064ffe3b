// Package data is the verbs that make, restore and replace what a peer keeps on its
// host: its data directory and its configuration.
package data

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
)

// Init is 'trivet init'.
func Init(t *term.Terminal, set *options.Set) *cobra.Command {
	c := &cobra.Command{
		Use:   "init",
		Short: "Found a cluster on this host and print how others join",
		Long: "Found a cluster whose first peer is this host: its ID, its certificate authority, its gossip key and a join token for the others.\n" +
			"Standard output is the command to run on the other hosts, which hands the token over in a here-document, since ps shows arguments; with -q the\n" +
			"token alone. Where a peer lives already nothing changes.\n\n" +
			"The configuration file (--config) is completed: options given as flags are written into it, and unless it says who may use the API,\n" +
			"http_basic with one user, " + firstUser +
			", whose password is shown once and whose hash is kept next to the file. What stands in the file\n" +
			"stays as it is. --config /dev/null writes none. Run by root, all files that it makes belong to the user of the service.\n\n" +
			"--inspection says which kind of site this is. 'ironic': Ironic, 33 or later, inspects by its interface agent; its machines may boot and\n" +
			"what their ramdisks report is kept for Ironic (firewall.inspect_interfaces: agent, inspection.continue_inspection: relay), and what to set\n" +
			"in Ironic is printed. 'trivet', which is the default: clients of ironic-inspector, as an Ironic up to 32, call Trivet. An Ironic that is\n" +
			"named and answers is asked whether that fits.\n\n" +
			"With --dry-run the files that would be written are printed as a diff, secrets hidden, and nothing is made.",
		Example: "  trivet init --firewall-interface br-pxe --floating-ip-address 192.0.2.10 --floating-ip-interface br-pxe --ironic-endpoint http://192.0.2.5:6385\n" +
			"  trivet init --inspection ironic --firewall-interface br-pxe --floating-ip-address 192.0.2.10 --floating-ip-interface br-pxe --ironic-endpoint http://192.0.2.5:6385",
	}
	var by string
	c.Flags().StringVar(&by, "inspection", "",
		"who inspects: "+byIronic+", or "+byTrivet+" for clients of ironic-inspector (default "+byTrivet+")")
	term.Complete(c, "inspection", byIronic, byTrivet)
	var dry bool
	term.DryRunFlag(c, &dry)
	set.Flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return foundCluster(c.Context(), t, set, by, dry) }
	return c
}

func foundCluster(ctx context.Context, t *term.Terminal, set *options.Set, by string, dry bool) (err error) {
	file, conf, err := loadDraft(t, set)
	if err != nil {
		return err
	}
	if id, _, err := datadir.Peek(conf.DataDir); err == nil {
		return foundAgain(ctx, t, set, conf, id, dry)
	}
	if err := chooseInspection(set, conf, by); err != nil {
		return err
	}
	if conf, err = file.load(set, file.text); err != nil { // with what that added
		return err
	}
	if err := refuse(options.Refused(conf)); err != nil {
		return err
	}
	if err := hostOf(t, conf).CheckAddress(); err != nil {
		return addressError(err) // before anything is written
	}
	dir, done, err := local.Use(conf.DataDir, dry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }() // after a failure, too
	w, err := settleFounder(t, set)
	if err != nil {
		return err
	}
	conf = w.conf
	first := hostOf(t, conf)
	if dry {
		founding, err := first.PlanInit(dir)
		if err != nil {
			return local.DirError(err)
		}
		sayInspection(ctx, t, w, by)
		return showMaking(t, w, dir, founding.Identity)
	}
	if err := w.write(t); err != nil {
		return err
	}
	first.HandOver = func() error { return local.HandOver(dir.Path()) }
	made, err := first.Init(dir)
	if errors.Is(err, datadir.ErrPeerExists) {
		return term.Fail(term.ExitFailed, "if nothing else is in it, remove it and repeat this",
			"%s: %w, but it cannot be read", conf.DataDir, err)
	}
	if err != nil {
		return local.DirError(err)
	}
	t.Say("%s is the first peer of cluster %s, in %s", made.Identity.Name, made.Identity.Cluster, conf.DataDir)
	sayInspection(ctx, t, w, by)
	sayServe(t, set, conf)
	return printFounding(t, made, w)
}

// founding is what init made, for scripts.
type founding struct {
	Name     string `json:"name"`
	Cluster  string `json:"cluster_id"`
	Address  string `json:"address"`
	Token    string `json:"token"`
	Config   string `json:"config,omitempty"`   // the file, where one was written
	User     string `json:"user,omitempty"`     // of the API, where one was made
	Password string `json:"password,omitempty"` // of that user; kept nowhere
}

func printFounding(t *term.Terminal, made *datadir.Founding, w settled) error {
	f := founding{Name: made.Identity.Name, Cluster: made.Identity.Cluster, Address: made.Identity.Address,
		Token: made.Token.String()}
	if len(w.plan.values) > 0 {
		f.Config = w.file.path
	}
	if login := w.plan.login; login != nil {
		f.User, f.Password = login.name, login.password
	}
	return t.Show(f, func() error {
		t.Say("on the others, within %v:", datadir.FirstTokenTTL)
		t.PrintJoin(made.Identity.Address, made.Token.String())
		return nil
	})
}

// addressError gives a host without one clear address its remedy.
func addressError(err error) error {
	address, ok := errors.AsType[*datadir.AddressError](err)
	if !ok {
		return err
	}
	example := "ADDRESS"
	if len(address.Found) > 0 {
		example = address.Found[0]
	}
	return term.Fail(term.ExitUsage,
		fmt.Sprintf("write the one that the other peers dial: '--cluster-advertise %s'",
			net.JoinHostPort(example, term.PeersPort)), "%w", err)
}

// foundAgain answers an init where a peer lives: nothing changes. A script that
// asked for a token gets one if the peer runs.
func foundAgain(ctx context.Context, t *term.Terminal, set *options.Set, conf config.Config,
	id datadir.Identity, dry bool) error {
	if dry || !t.Quiet {
		t.Say("%s is a peer of cluster %s already, in %s; nothing was changed", id.Name, id.Cluster, conf.DataDir)
		if dry {
			return t.ShowEdits([]term.Edit{{Path: conf.DataDir}})
		}
		sayServe(t, set, conf)
		t.Say("for the command that others join with: 'trivet token create'")
		return nil
	}
	var made admin.Token
	if err := term.OnSocket(conf.Socket).Call(ctx, "POST", "/v1/tokens", admin.NewToken{}, &made); err != nil {
		return term.Fail(term.ExitConflict, "start the peer ('trivet serve') and run 'trivet token create'",
			"%s is a peer already, and its first join token is not kept: %w", id.Name, err)
	}
	fmt.Fprintln(t.Out, made.Secret)
	return nil
}

func hostOf(t *term.Terminal, conf config.Config) datadir.Host {
	return datadir.Host{Config: conf, Binary: t.Version, Wall: t.Wall, Random: t.Random}
}
