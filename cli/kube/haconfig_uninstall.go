package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	peers "github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/haconfig/kube"
)

// uninstallLimit bounds all calls of 'haconfig uninstall': the removal of a package
// waits for it.
const uninstallLimit = 15 * time.Second

func haconfigUninstall(t *term.Terminal, set *options.Set) *cobra.Command {
	var cluster, kubeconfig, registration string
	var ifLast, dry bool
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Delete the registration of the webhook, so that the API server asks the peers no more",
		Long: "Delete the MutatingWebhookConfiguration in each cluster. Without it the API server asks no peer about components; while it is there and\n" +
			"no peer answers, the API server refuses every Deployment, StatefulSet and HorizontalPodAutoscaler of the considered namespaces. Clusters\n" +
			"and name are those of haconfig in trivet.yaml unless flags say otherwise. 'trivet haconfig manifest' makes the registration again.\n\n" +
			"With --if-last, as the removal of the package calls it, it is deleted only if haconfig is configured here and each other peer is known\n" +
			"to be stopped: it left, or its host refuses the connection. One that is only silent may serve on, where this host is cut off. The peer\n" +
			"of this host has to run for that.",
		Example: "  trivet haconfig uninstall\n  trivet haconfig uninstall --cluster shoot\n  trivet haconfig uninstall --kubeconfig ~/.kube/config",
	}
	c.Flags().StringVar(&cluster, "cluster", "", "in this cluster of haconfig.kubeconfigs alone")
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "of whom deletes it, instead of haconfig.kubeconfigs")
	c.Flags().StringVar(&registration, "registration", "",
		"name of the MutatingWebhookConfiguration, instead of haconfig.registration")
	c.Flags().BoolVar(&ifLast, "if-last", false, "only if each other peer is known to be stopped")
	term.DryRunFlag(c, &dry)
	c.RunE = func(c *cobra.Command, _ []string) error {
		conf, err := set.Peruse()
		if err != nil && (kubeconfig == "" || ifLast) {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), uninstallLimit)
		defer cancel()
		of := conf.HAConfig
		if ifLast && kubeconfig == "" && !of.On() {
			return nil
		}
		clusters, err := clustersMeant(of, cluster, kubeconfig)
		if err != nil {
			return err
		}
		if registration != "" {
			of.Registration = registration
		}
		if of.Registration == "" {
			of.Registration = config.Default().HAConfig.Registration
		}
		if ifLast {
			peer := term.OnSocket(conf.Socket) // not --peer: the package of this host is removed
			if stopped, err := othersStopped(ctx, peer, of.Registration); err != nil || !stopped {
				return err
			}
		}
		var failed []error
		for _, one := range clusters { // one that is away keeps none of the others
			failed = append(failed, dropRegistration(ctx, t, of, one, dry))
		}
		return errors.Join(failed...)
	}
	return c
}

// clustersMeant are the clusters of haconfig, the one of a name, or that of a kubeconfig,
// which has no name.
func clustersMeant(of config.HAConfig, name, kubeconfig string) ([]config.KubeCluster, error) {
	switch {
	case kubeconfig != "" && name != "":
		return nil, term.Usage("--cluster and --kubeconfig: write one of the two")
	case kubeconfig != "":
		return []config.KubeCluster{{Kubeconfig: kubeconfig}}, nil
	case !of.On():
		return nil, term.Usage("haconfig is not configured here: --kubeconfig says which cluster is meant")
	case name == "":
		return of.Clusters(), nil
	}
	var names []string
	for _, c := range of.Clusters() {
		if c.Name == name {
			return []config.KubeCluster{c}, nil
		}
		names = append(names, c.Name)
	}
	return nil, term.Usage("--cluster %q: haconfig has %s", name, strings.Join(names, ", "))
}

// othersStopped reports whether each other peer is stopped; its error names one of which that
// is not known. Silence alone proves nothing: it may be this host that is cut off.
func othersStopped(ctx context.Context, peer term.Peer, registration string) (bool, error) {
	left := func(why string, about ...any) error {
		return term.Fail(term.ExitFailed,
			"if this was the last peer: kubectl delete mutatingwebhookconfiguration "+registration,
			"the registration of the webhook is left, because "+why, about...)
	}
	var rows []api.Peer
	if err := peer.Call(ctx, "GET", "/v1/peers", nil, &rows); err != nil {
		return false, left("it is not known whether other peers answer: %w", err)
	}
	if slices.ContainsFunc(rows, func(r api.Peer) bool { return !r.Self && (r.Live || r.Gossip == "alive") }) {
		return false, nil
	}
	var hosts []membership.FormerMember
	for _, r := range rows {
		if !r.Self && r.Gossip != "left" {
			hosts = append(hosts, membership.FormerMember{Name: r.Name, Address: r.Address})
		}
	}
	asked, err := peers.Surveyor{}.Ask(ctx, hosts)
	if err != nil {
		return false, left("it is not known whether other peers run: %w", err)
	}
	for _, host := range asked {
		if host.Presence != peers.Stopped {
			return false, left("peer %s may run: %s", host.Name, host.Detail)
		}
	}
	return true, nil
}

func dropRegistration(ctx context.Context, t *term.Terminal, of config.HAConfig, in config.KubeCluster,
	dry bool) error {
	where := ""
	if in.Name != "" {
		where = " in cluster " + in.Name
	}
	cluster, err := kube.Open(
		kube.Options{Kubeconfig: in.Kubeconfig, Names: haconfig.Names{Prefix: of.Prefix}, Now: time.Now})
	if err != nil {
		return term.Usage("%v", err)
	}
	defer cluster.Close()
	found, err := cluster.DropRegistration(ctx, of.Registration, dry)
	switch {
	case err != nil:
		return term.Fail(term.ExitFailed,
			"kubectl delete mutatingwebhookconfiguration "+of.Registration+
				", before the last peer is gone: after that the API server refuses the components of considered namespaces",
			"delete the registration of the webhook%s: %w", where, err)
	case dry:
		object := "MutatingWebhookConfiguration " + of.Registration
		plan := term.Plan{Before: object + "\n"}
		if !found {
			plan.Before = ""
		}
		return t.ShowPlan("registration"+where, plan)
	case !found:
		t.Say("there is no MutatingWebhookConfiguration %s%s", of.Registration, where)
		return nil
	}
	t.Say("deleted MutatingWebhookConfiguration %s%s: the API server asks the peers about components no more",
		of.Registration, where)
	return nil
}
