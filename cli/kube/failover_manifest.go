package kube

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/failover/kube"
)

func failoverManifest(t *term.Terminal) *cobra.Command {
	var o kube.ManifestOptions
	c := &cobra.Command{
		Use:   "manifest",
		Short: "Print the rights that failover needs in a cluster, to be applied with kubectl",
		Long: "Print what an operator applies to a cluster so that failover may do there what it needs, and nothing else: a service account, its\n" +
			"rights, and a token for a kubeconfig, which peers that are pods of the cluster do not need (--in-cluster; the chart of docs/kubernetes.md\n" +
			"has the same rights). The Namespace has to be there, and is not in it: 'kubectl delete -f -' of the same takes nothing of others. It asks\n" +
			"no peer and no API server.",
		Example: "  kubectl create namespace trivet\n  trivet failover manifest | kubectl apply -f -",
	}
	c.Flags().StringVar(&o.Namespace, "namespace", "trivet", "where the service account lives")
	c.Flags().BoolVar(&o.InCluster, "in-cluster", false, "for peers that run as pods of the cluster")
	c.RunE = func(*cobra.Command, []string) error {
		if err := checkName("--namespace", o.Namespace); err != nil {
			return err
		}
		_, err := fmt.Fprint(t.Out, kube.Manifest(o))
		return err
	}
	return c
}
