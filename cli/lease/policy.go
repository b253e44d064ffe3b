package lease

import (
	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/lease/kubepolicy"
)

// policy prints a policy; it asks no peer and no cluster.
func policy(t *term.Terminal) *cobra.Command {
	var o kubepolicy.Options
	c := &cobra.Command{
		Use:   "kubernetes-policy NAME --selector LABELS --resource RESOURCE",
		Short: "Print a policy by which Kubernetes refuses writes under an old token of a lease",
		Long: "Print a ValidatingAdmissionPolicy and its binding, to be applied with kubectl. The API server then stores an object that matches only if\n" +
			"the annotation trivet.dev/fencing-token holds a token that is not lower than the one that the object has: a holder that has lost its\n" +
			"lease and does not know it is refused in the moment of the write. Every writer must set the annotation. Kubernetes 1.30 or newer.",
		Example: "trivet lease kubernetes-policy backup --selector app=backup --resource configmaps | kubectl apply -f -",
		RunE: func(c *cobra.Command, args []string) error {
			o.Lease = args[0]
			text, err := kubepolicy.Manifest(o)
			if err != nil {
				return term.Usage("%v", err)
			}
			_, err = t.Out.Write(text)
			return err
		},
	}
	c.Flags().StringVarP(&o.Selector, "selector", "l", "",
		"labels of the objects that the lease protects, as kubectl has them")
	c.Flags().StringSliceVar(&o.Resources, "resource", nil,
		"what they are, such as configmaps or deployments.apps; may be repeated")
	c.Flags().StringVar(&o.Namespace, "namespace", "", "where they are (default everywhere)")
	c.Flags().StringVar(&o.Name, "name", "", "of the policy (default trivet-lease-NAME)")
	return c
}
