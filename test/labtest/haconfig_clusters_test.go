//go:build e2e

package labtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/test/labtest/kubelab"
)

// twoClusters are the settings of peers that serve a seed and a shoot.
const twoClusters = `haconfig:
  kubeconfigs: [seed=KUBECONFIG0, shoot=KUBECONFIG1]
  listen: ADDRESS:PORT
  via: endpoints
  default_not_ready_toleration_seconds: 60
  disruption_budgets: true
  namespaces:
  - cluster=seed name=haconfig-shop tolerance=zone zones=z1+z2+z3
  - cluster=shoot name=haconfig-shop
  components:
  - cluster=shoot name=prometheus type=observability
`

// haUnlabelled is a component that no label names.
const haUnlabelled = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: prometheus, namespace: NAMESPACE}
spec:
  replicas: 3
  selector: {matchLabels: {app: prometheus}}
  template:
    metadata: {labels: {app: prometheus}}
    spec: {containers: [{name: c, image: none.example.org/none:1}]}
`

// TestHAConfigOfTwoClusters serves two real API servers. Each one's objects get what
// its own namespaces and rules say; one that stops disturbs the other in nothing; and
// one that asks at the path of the other can ask no more.
func TestHAConfigOfTwoClusters(t *testing.T) {
	t.Parallel()
	seed, shoot := kubelab.Start(t, "--lite", "--apiserver-arg=--enable-aggregator-routing=true"),
		kubelab.Start(t, "--lite", "--apiserver-arg=--enable-aggregator-routing=true")
	for k, annotations := range map[*kubelab.Cluster][]string{seed: {"zones=z2,z1", "failure-tolerance-type=zone"},
		shoot: {"failure-tolerance-type="}} {
		for _, name := range []string{haNamespace, "haconfig-shop"} {
			k.Kubectl("create", "namespace", name)
		}
		k.Kubectl("label", "namespace", haNamespace, haconfig.DefaultPrefix+"consider=true")
		for _, annotation := range annotations {
			k.Kubectl("annotate", "namespace", haNamespace, haconfig.DefaultPrefix+annotation)
		}
		for name, zone := range map[string]string{"n1": "a", "n2": "b"} {
			k.Apply("{apiVersion: v1, kind: Node, metadata: {name: " + name + ", labels: {topology.kubernetes.io/zone: " + zone +
				"}}}")
		}
	}
	s := newHASite(t, "198.18.78", twoClusters, seed, shoot)
	s.register("--via", "endpoints", "--port", s.port, "--cluster", "seed")
	s.at(shoot)
	s.registerShoot("shoot")
	s.ofItsOwn(t, seed, shoot)
	s.besideOneThatIsAway(t, seed, shoot)
	s.atAnothersPath(t, shoot)
}

// registerShoot applies the manifest for a name to the shoot.
func (s *haSite) registerShoot(name string) {
	s.t.Helper()
	s.kube.Grant(s.Peers[0].Must("haconfig", "manifest", "--namespaces", "--disruption-budgets", "--via", "endpoints",
		"--port", s.port, "--cluster", name))
	if name == "shoot" {
		s.Eventually(kubelab.Limit, "the shoot's objects get its settings", func() error { return s.shootCreates() })
	}
}

// shootCreates makes a Deployment, whose tolerance is the shoot's.
func (s *haSite) shootCreates() error {
	code, d, err := s.create("shoot-" + fmt.Sprint(time.Now().UnixNano()))
	if err == nil && (code != http.StatusCreated || *d.Spec.Replicas != 2 ||
		len(d.Spec.Template.Spec.TopologySpreadConstraints) != 1) {
		err = fmt.Errorf("code %d: %+v", code, d.Spec)
	}
	return err
}

// ofItsOwn looks at zones, components without a label and budgets of each.
func (s *haSite) ofItsOwn(t *testing.T, seed, shoot *kubelab.Cluster) {
	t.Helper()
	zones := "{.metadata.annotations['" + strings.ReplaceAll(haconfig.DefaultPrefix, ".", `\.`) + "zones']}"
	for k, want := range map[*kubelab.Cluster]struct {
		zones, replicas, budgets string
	}{seed: {"z1,z2,z3", "3", ""}, shoot: {"a,b", "1", "trivet-deployment-prometheus 1;"}} {
		k.Await("a namespace has the zones of its own cluster", want.zones, zones, "namespace/haconfig-shop")
		k.Kubectl("delete", "deployments", "--all", "-n", haNamespace)
		k.Apply(strings.ReplaceAll(haUnlabelled, "NAMESPACE", haNamespace))
		if got := k.Get("{.spec.replicas}", "deployment/prometheus", "-n", haNamespace); got != want.replicas {
			t.Errorf("a component without a label has %s replicas, want %s", got, want.replicas)
		}
		k.Await("budgets", want.budgets, "{range .items[*]}{.metadata.name} {.spec.maxUnavailable};{end}", "pdb", "-n",
			haNamespace)
	}
}

// besideOneThatIsAway stops the shoot's API server under a stream of creations in the
// seed.
func (s *haSite) besideOneThatIsAway(t *testing.T, seed, shoot *kubelab.Cluster) {
	t.Helper()
	shoot.Component("kube-apiserver", "pause")
	s.Eventually(kubelab.Limit, "status names the cluster that is away",
		func() error { return s.WaitLeader().warns("haconfig_api_silent", "cluster shoot") })
	s.at(seed)
	const n = 50
	st := s.stream("beside", n, 50*time.Millisecond)
	st.done.Wait()
	if created := st.created.Load(); created != n {
		t.Errorf("%d of %d were created beside a cluster that is away, %d refused (%s), %d without their settings", created,
			n, st.refused.Load(), st.why.Load(), st.unchanged.Load())
	}
	if err := s.WaitLeader().warns("haconfig_api_silent", "cluster seed"); err == nil {
		t.Error("status says that the seed is away")
	}
	shoot.Component("kube-apiserver", "resume")
	s.at(shoot)
	s.Eventually(kubelab.Limit, "the shoot is served again", s.shootCreates)
}

// atAnothersPath gives the shoot the registration of the seed.
func (s *haSite) atAnothersPath(t *testing.T, shoot *kubelab.Cluster) {
	t.Helper()
	s.registerShoot("seed")
	s.Eventually(kubelab.Limit, "status names the registration",
		func() error { return s.WaitLeader().warns("haconfig_not_kept", "haconfig manifest --cluster shoot") })
	shoot.Await("the CA is taken out", "", "{.webhooks[0].clientConfig.caBundle}",
		"mutatingwebhookconfiguration/trivet-haconfig")
	if code, _, err := s.create("misled"); err == nil {
		t.Errorf("an object of the shoot is admitted at the path of the seed: %d", code)
	}
	s.registerShoot("shoot")
}
