package kube

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/haconfig/kube"
)

// uninstallLimit bounds all calls of 'haconfig uninstall': the removal of a package
// waits for it.
const uninstallLimit = 15 * time.Second

func haconfigUninstall(t *term.Terminal, peer term.Peer, set *options.Set) *cobra.Command {
	var kubeconfig, registration string
	var ifLast bool
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Delete the registration of the webhook, so that the API server asks the peers no more",
		Long: "Delete the MutatingWebhookConfiguration. Without it the API server asks no peer about components; while it is there and no peer\n" +
			"answers, the API server refuses every Deployment, StatefulSet and HorizontalPodAutoscaler of the considered namespaces. Cluster and name\n" +
			"are those of haconfig in trivet.yaml unless flags say otherwise. 'trivet haconfig manifest' makes the registration again.\n\n" +
			"With --if-last, as the removal of the package calls it, it is deleted only if haconfig is configured here and no other peer is alive;\n" +
			"the peer of this host has to run for that.",
		Example: "  trivet haconfig uninstall\n  trivet haconfig uninstall --kubeconfig ~/.kube/config",
	}
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "of whom deletes it, instead of haconfig.kubeconfig")
	c.Flags().StringVar(&registration, "registration", "", "name of the MutatingWebhookConfiguration, instead of haconfig.registration")
	c.Flags().BoolVar(&ifLast, "if-last", false, "only if no other peer is alive")
	c.RunE = func(c *cobra.Command, _ []string) error {
		conf, err := set.Peruse()
		if err != nil && (kubeconfig == "" || ifLast) {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), uninstallLimit)
		defer cancel()
		of := conf.HAConfig
		if kubeconfig != "" {
			of.Kubeconfig = kubeconfig
		} else if !of.On() {
			if ifLast {
				return nil
			}
			return term.Usage("haconfig is not configured here: --kubeconfig says which cluster is meant")
		}
		if registration != "" {
			of.Registration = registration
		}
		if of.Registration == "" {
			of.Registration = config.Default().HAConfig.Registration
		}
		if ifLast {
			if others, err := othersAlive(ctx, peer); err != nil || others {
				return err
			}
		}
		return dropRegistration(ctx, t, of)
	}
	return c
}

// othersAlive reports whether another peer lives, as far as that of this host knows.
func othersAlive(ctx context.Context, peer term.Peer) (bool, error) {
	var rows []api.Peer
	if err := peer.Call(ctx, "GET", "/v1/peers", nil, &rows); err != nil {
		return false, term.Fail(term.ExitFailed, "if this was the last peer: kubectl delete mutatingwebhookconfiguration trivet-haconfig",
			"the registration of the webhook is left, because it is not known whether other peers answer: %w", err)
	}
	for _, r := range rows {
		if !r.Self && (r.Live || r.Gossip == "alive") {
			return true, nil
		}
	}
	return false, nil
}

func dropRegistration(ctx context.Context, t *term.Terminal, of config.HAConfig) error {
	cluster, err := kube.Open(kube.Options{Kubeconfig: of.Kubeconfig, Names: haconfig.Names{Prefix: of.Prefix}, Now: time.Now})
	if err != nil {
		return term.Usage("%v", err)
	}
	defer cluster.Close()
	found, err := cluster.DropRegistration(ctx, of.Registration)
	switch {
	case err != nil:
		return term.Fail(term.ExitFailed, "kubectl delete mutatingwebhookconfiguration "+of.Registration+", before the last peer is gone: after that the API server refuses the components of considered namespaces",
			"delete the registration of the webhook: %w", err)
	case !found:
		t.Say("there is no MutatingWebhookConfiguration %s", of.Registration)
		return nil
	}
	t.Say("deleted MutatingWebhookConfiguration %s: the API server asks the peers about components no more", of.Registration)
	return nil
}
