package kube

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/haconfig/kube"
)

// HAConfig is 'trivet haconfig'.
func HAConfig(t *term.Terminal, set *options.Set) *cobra.Command {
	return term.Group("haconfig", "High availability of components deployed in Kubernetes",
		haconfigManifest(t, set), haconfigLint(t), haconfigCheck(t, set), haconfigUninstall(t, set))
}

// manifestFlags are those of 'haconfig manifest', as they are written.
type manifestFlags struct {
	kube.ManifestOptions
	port   string
	policy bool
}

func haconfigManifest(t *term.Terminal, set *options.Set) *cobra.Command {
	var f manifestFlags
	c := &cobra.Command{
		Use:   "manifest --via floating-ip|endpoints",
		Short: "Print the registration of the webhook and the rights it needs, to be applied with kubectl",
		Long: "Print what an operator applies to a cluster so that its API server asks the peers about components, and the peers may do there what\n" +
			"that needs, and nothing else: the MutatingWebhookConfiguration, a service account, its rights and a token for a kubeconfig; with\n" +
			"--via endpoints a Service whose EndpointSlice the leader keeps. The Namespace has to be there, and is not in it: 'kubectl delete -f -' of\n" +
			"the same takes nothing of others. It asks no API server; the flags say what haconfig in trivet.yaml says. Where\n" +
			"haconfig has several clusters, each needs the manifest with its own name: the peers know by the path which cluster asks.\n\n" +
			"With --policy print MutatingAdmissionPolicies instead, which the API server of Kubernetes 1.36 or newer evaluates without a peer. Prefix,\n" +
			"strictness, tolerations and rules for components are those of haconfig in trivet.yaml; what policies cannot do stands at their head.",
		Example: "  kubectl create namespace trivet\n" +
			"  trivet haconfig manifest --cluster prod --via floating-ip --address 192.0.2.10 | kubectl apply -f -\n" +
			"  trivet haconfig manifest --cluster prod --via endpoints | kubectl apply -f -\n" +
			"  trivet haconfig manifest --policy | kubectl apply -f -",
	}
	c.Flags().StringVar(&f.Cluster, "cluster", "",
		"name of the cluster, as in haconfig.kubeconfigs; it may be missing where there is one alone")
	c.Flags().StringVar(&f.Via, "via", "",
		"how the API server reaches the peers: floating-ip or endpoints, as haconfig.via")
	term.Complete(c, "via", config.HAViaFloatingIP, config.HAViaEndpoints)
	c.Flags().StringVar(&f.Address, "address", "", "with floating-ip: the address, as floating_ip.address")
	c.Flags().StringVar(&f.port, "port", "9443", "that of haconfig.listen")
	c.Flags().StringVar(&f.Namespace, "namespace", "trivet",
		"of the service account and the Service, as haconfig.namespace")
	c.Flags().StringVar(&f.Registration, "registration", "trivet-haconfig",
		"name of the MutatingWebhookConfiguration, as haconfig.registration")
	c.Flags().StringVar(&f.Service, "service", "trivet-haconfig", "name of the Service, as haconfig.service")
	c.Flags().StringVar(&f.Names.Prefix, "prefix", haconfig.DefaultPrefix,
		"how labels and annotations begin, as haconfig.prefix")
	c.Flags().StringSliceVar(&f.Exclude, "exclude", nil,
		"namespaces that are never looked after, besides those of peers and kubelets")
	c.Flags().BoolVar(&f.Annotates, "namespaces", false, "with the rights that haconfig.namespaces needs")
	c.Flags().BoolVar(&f.Budgets, "disruption-budgets", false, "with the rights that haconfig.disruption_budgets needs")
	c.Flags().BoolVar(&f.policy, "policy", false, "print admission policies, which need no peer")
	c.RunE = func(c *cobra.Command, _ []string) error {
		text, err := f.print(c, set)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(t.Out, text)
		return err
	}
	return c
}

// print makes what the flags ask for.
func (f manifestFlags) print(c *cobra.Command, set *options.Set) (string, error) {
	if !f.policy {
		o, err := f.options()
		if err != nil {
			return "", err
		}
		return kube.Manifest(o), nil
	}
	for _, flag := range []string{"via", "address", "port", "namespace", "service", "namespaces", "disruption-budgets"} {
		if c.Flags().Changed(flag) {
			return "", term.Usage("--%s is about the webhook and its peers, and --policy needs none: leave one of them out",
				flag)
		}
	}
	if err := f.checkNames(); err != nil {
		return "", err
	}
	conf, err := set.Peruse()
	if err != nil {
		return "", err
	}
	if !c.Flags().Changed("prefix") {
		f.Names.Prefix = conf.HAConfig.Prefix
	}
	if !haconfig.ValidPrefix(f.Names.Prefix) {
		return "", term.Usage("--prefix %q is a DNS name and a '/'", f.Names.Prefix)
	}
	conventions := app.HAConventions(conf.HAConfig, f.Cluster)
	conventions.Names.Prefix = f.Names.Prefix
	return kube.Policy(kube.PolicyOptions{Name: f.Registration, Exclude: f.Exclude, Conventions: conventions}), nil
}

// options judges the flags: nothing in them may be more to YAML than a name.
func (f manifestFlags) options() (o kube.ManifestOptions, err error) {
	if f.Via != config.HAViaFloatingIP && f.Via != config.HAViaEndpoints {
		return o, term.Usage("--via %q: it is floating-ip or endpoints", f.Via)
	}
	if f.Via == config.HAViaFloatingIP {
		if _, err := netip.ParseAddr(f.Address); err != nil {
			return o, term.Usage("--address %q: --via floating-ip needs the address that the leader holds", f.Address)
		}
	}
	if n, err := fmt.Sscanf(f.port, "%d", &f.Port); n != 1 || err != nil || f.Port < 1 || f.Port > 65535 {
		return o, term.Usage("--port %q is no port", f.port)
	}
	if err := f.checkNames(); err != nil {
		return o, err
	}
	if !haconfig.ValidPrefix(f.Names.Prefix) {
		return o, term.Usage("--prefix %q is a DNS name and a '/'", f.Names.Prefix)
	}
	return f.ManifestOptions, nil
}

// checkNames judges the flags that are names of Kubernetes.
func (f manifestFlags) checkNames() error {
	if f.Cluster != "" {
		if err := checkName("--cluster", f.Cluster); err != nil {
			return err
		}
	}
	for flag, names := range map[string][]string{"--namespace": {f.Namespace}, "--registration": {f.Registration},
		"--service": {f.Service}, "--exclude": f.Exclude} {
		for _, name := range names {
			if err := checkName(flag, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkName judges a flag that is a name of Kubernetes.
func checkName(flag, name string) error {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return term.Usage("%s %q: it has small letters, digits and '-'", flag, name)
	}
	return nil
}
