package kube

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/haconfig/kube"
)

// adviceExit tells people when advice ends with which code.
const adviceExit = "It ends with 1 if there is a risk (with --fail-on change, also if anything would be changed; with --fail-on none, never), and with 0 else."

// adviceTimeout bounds each page that is read of a cluster.
const adviceTimeout = 30 * time.Second

// maxManifest bounds a file of manifests, in bytes.
const maxManifest = 64 << 20

// adviceFlags are those of 'haconfig lint' and 'check'.
type adviceFlags struct {
	prefix, failOn string
	components     []string
}

func (f *adviceFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.prefix, "prefix", haconfig.DefaultPrefix,
		"how labels and annotations begin, as haconfig.prefix")
	c.Flags().StringVar(&f.failOn, "fail-on", "risk", "what ends with 1: risk, change or none")
	term.Complete(c, "fail-on", "risk", "change", "none")
	c.Flags().StringArrayVar(&f.components, "component", nil,
		"what a component without the label is, as an item of haconfig.components; may be repeated")
}

func (f *adviceFlags) conventions() (haconfig.Conventions, error) {
	if !slices.Contains([]string{"risk", "change", "none"}, f.failOn) {
		return haconfig.Conventions{}, term.Usage("--fail-on %q: it is risk, change or none", f.failOn)
	}
	if !haconfig.ValidPrefix(f.prefix) {
		return haconfig.Conventions{}, term.Usage("--prefix %q is a DNS name and a '/'", f.prefix)
	}
	out := haconfig.Conventions{Names: haconfig.Names{Prefix: f.prefix}}
	for _, item := range f.components {
		r, err := config.ParseComponentRule(item)
		if err != nil {
			return out, term.Usage("--component %q: %v; write it as in 'namespace=monitoring type=observability'", item, err)
		}
		out.Components = append(out.Components,
			haconfig.ComponentRule{Namespace: r.Namespace, Name: r.Name, Labels: r.Labels, Type: r.Type})
	}
	return out, nil
}

// configured adds to flags that were not given what haconfig says of a cluster.
func (f *adviceFlags) configured(c *cobra.Command, of config.HAConfig, cluster string) {
	if !c.Flags().Changed("prefix") {
		f.prefix = of.Prefix
	}
	if c.Flags().Changed("component") {
		return
	}
	for _, item := range of.Components {
		if r, err := config.ParseComponentRule(item); err == nil && (r.Cluster == "" || r.Cluster == cluster) {
			f.components = append(f.components, item)
		}
	}
}

func haconfigLint(t *term.Terminal) *cobra.Command {
	var f adviceFlags
	var tolerance, zones string
	c := &cobra.Command{
		Use:   "lint FILE|-",
		Short: "Say what the conventions would change of manifests, and what would not survive a host",
		Long: "Read manifests (YAML or JSON) and say for each Deployment and StatefulSet, and each autoscaler, what the webhook would change, and\n" +
			"what would not survive the loss of a host even then: a single replica, nothing that spreads it, no disruption budget or one of\n" +
			"no use, a volume of one host. Namespaces, budgets and autoscalers in the same file count; a namespace that is not in it is taken for one that\n" +
			"is considered. It asks no API server. Documents of other kinds are skipped. What kubectl reads is read as it\n" +
			"does: of a key that is written twice the last counts. A document that cannot be read is named, the rest is judged, and\n" +
			"the exit code is 2 then.\n" + adviceExit,
		Example: "  trivet haconfig lint deployment.yaml\n  helm template . | trivet haconfig lint - --tolerance zone --zones a,b,c -o json",
	}
	f.add(c)
	c.Flags().StringVar(&tolerance, "tolerance", "",
		"failure-tolerance-type of namespaces that are not in the file; none unless it is given")
	c.Flags().StringVar(&zones, "zones", "", "their zones, with commas between")
	c.RunE = func(c *cobra.Command, args []string) error {
		conventions, err := f.conventions()
		if err != nil {
			return err
		}
		fallback := map[string]string{conventions.Names.Zones(): zones}
		if c.Flags().Changed("tolerance") {
			fallback[conventions.Names.Tolerance()] = tolerance
		}
		all := haconfig.NewInventory()
		manifests, err := t.Input(args[0])
		if err != nil {
			return term.Usage("%v", err)
		}
		defer manifests.Close()
		within := &io.LimitedReader{R: manifests, N: maxManifest}
		unread := all.ReadManifests(within)
		if within.N == 0 {
			unread = errors.Join(unread, fmt.Errorf("longer than %d MiB: judge it in parts", maxManifest>>20))
		}
		const nodes = 2 // several; a file does not say how many
		advice, unjudged := all.Advise(conventions, nodes, fallback)
		judged := printAdvice(t, advice, f.failOn)
		if err := errors.Join(unread, unjudged); err != nil {
			return term.Usage("%s: %s", args[0], term.Printable(strings.ReplaceAll(err.Error(), "\n", "; ")))
		}
		return judged
	}
	return c
}

func haconfigCheck(t *term.Terminal, set *options.Set) *cobra.Command {
	var f adviceFlags
	var kubeconfig, cluster string
	c := &cobra.Command{
		Use:   "check --cluster NAME",
		Short: "The same for what is deployed in a cluster",
		Long: "Read the Deployments, StatefulSets and autoscalers of a cluster, with their namespaces, disruption budgets and volumes, and say what\n" +
			"'trivet haconfig lint' says of manifests. In namespaces that are not considered nothing would be changed; their risks are told all the\n" +
			"same. It changes nothing, and needs the right to list these kinds and nodes. With --cluster kubeconfig, prefix and rules for components\n" +
			"are those of haconfig in trivet.yaml.\n" + adviceExit,
		Example: "  trivet haconfig check --kubeconfig ~/.kube/config\n  trivet haconfig check --cluster prod",
	}
	f.add(c)
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "of whom asks")
	c.Flags().StringVar(&cluster, "cluster", "", "a cluster of haconfig in trivet.yaml")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if cluster != "" {
			conf, err := set.Peruse()
			if err != nil {
				return err
			}
			found, err := clustersMeant(conf.HAConfig, cluster, kubeconfig)
			if err != nil {
				return err
			}
			kubeconfig = found[0].Kubeconfig
			f.configured(c, conf.HAConfig, cluster)
		} else if kubeconfig == "" {
			return term.Usage("--kubeconfig or --cluster says which cluster is meant")
		}
		conventions, err := f.conventions()
		if err != nil {
			return err
		}
		opened, err := kube.Open(
			kube.Options{Kubeconfig: kubeconfig, Names: conventions.Names, Timeout: adviceTimeout, Now: time.Now})
		if err != nil {
			return term.Usage("%v", err)
		}
		defer opened.Close()
		all, nodes, err := opened.Inventory(c.Context())
		if err != nil {
			return err
		}
		advice, err := all.Advise(conventions, nodes, nil)
		if err != nil {
			return err
		}
		return printAdvice(t, advice, f.failOn)
	}
	return c
}

// printAdvice shows all of it, and fails as failOn says.
func printAdvice(t *term.Terminal, all []haconfig.Advice, failOn string) error {
	type row struct {
		Key                                  string `col:"name"`
		Namespace, Kind, Name, Finding, Text string
	}
	err := t.Show(all, term.Each(all, func(a haconfig.Advice) row {
		return row{a.Namespace + "/" + a.Name, term.Printable(a.Namespace), term.Printable(a.Kind), term.Printable(a.Name),
			a.Finding, term.Printable(a.Text)}
	}))
	if err != nil {
		return err
	}
	bad := 0
	for _, a := range all {
		if a.Risk() && failOn != "none" || failOn == "change" {
			bad++
		}
	}
	if bad > 0 {
		return term.Fail(term.ExitFailed, "'trivet haconfig lint --help' says what ends with which code", "%d findings", bad)
	}
	return nil
}
