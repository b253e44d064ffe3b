//go:build e2e

package labtest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/trivet-ha/trivet/haconfig"
	"github.com/trivet-ha/trivet/test/labtest/kubelab"
	"github.com/trivet-ha/trivet/test/testenv"
)

// haComponents are what the tables are looked up for.
const haComponents = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: ctl, labels: {PREFIXtype: controller}}
spec:
  replicas: 3
  selector: {matchLabels: {app: ctl}}
  template:
    metadata: {labels: {app: ctl, tier: x}}
    spec: {containers: [{name: c, image: none.example.org/none:1}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, labels: {PREFIXtype: server}, annotations: {PREFIXreplicas: "3"}}
spec:
  replicas: 1
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db, tier: x}}
    spec: {containers: [{name: c, image: none.example.org/none:1}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: left, labels: {PREFIXtype: server, PREFIXskip: ""}}
spec:
  replicas: 1
  selector: {matchLabels: {app: left}}
  template:
    metadata: {labels: {app: left}}
    spec: {containers: [{name: c, image: none.example.org/none:1}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: hpa, labels: {PREFIXtype: server}}
spec: {minReplicas: 1, maxReplicas: 1, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: other}}
`

// TestHAConfig registers three peers at a real API server, in both ways. What
// kubectl creates comes out as the tables say; while a peer and then the leader are
// killed under a stream of creations, none is admitted without its settings, and
// few are refused.
func TestHAConfig(t *testing.T) {
	t.Parallel()
	k := kubelab.Start(t, "--lite", "--apiserver-arg=--enable-aggregator-routing=true")
	k.Kubectl("create", "namespace", haNamespace)
	k.Kubectl("label", "namespace", haNamespace, haconfig.DefaultPrefix+"consider=true")
	k.Kubectl("annotate", "namespace", haNamespace, haconfig.DefaultPrefix+"zones=z2,z1",
		haconfig.DefaultPrefix+"failure-tolerance-type=zone")
	for _, name := range []string{"n1", "n2"} {
		k.Apply("{apiVersion: v1, kind: Node, metadata: {name: " + name + "}}")
	}
	for _, name := range []string{"haconfig-shop", "haconfig-few"} {
		k.Kubectl("create", "namespace", name)
	}
	s := newHASite(t, "198.18.77", haSettings, k)
	s.register("--via", "endpoints", "--port", s.port)
	t.Run("tables", func(t *testing.T) { s.tables(t) })
	zones := s.zonesOf(t)
	k.Apply(strings.ReplaceAll(haForeign, "NAMESPACE", haNamespace))
	n := longer(60, 1000)
	s.killedDuring(t, "endpoints", n)
	host, port, err := net.SplitHostPort(s.leadersWay(t))
	testenv.Must(t, err)
	s.register("--via", "floating-ip", "--address", host, "--port", port)
	s.killedDuring(t, "floating-ip", n)
	t.Run("kept", func(t *testing.T) { s.kept(t, zones) })
}

// haForeign is a budget of somebody else, for one of the components.
const haForeign = `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: theirs, namespace: NAMESPACE}, spec: {minAvailable: 1, selector: {matchLabels: {app: db}}}}`

// zonesOf waits until the leader has chosen zones, and returns them.
func (s *haSite) zonesOf(t *testing.T) (zones string) {
	t.Helper()
	k := s.kube.For(t)
	s.Eventually(kubelab.Limit, "a namespace has its zones", func() error {
		zones = k.Get("{.metadata.annotations['"+strings.ReplaceAll(haconfig.DefaultPrefix, ".", `\.`)+"zones']}",
			"namespace/haconfig-shop")
		if strings.Count(zones, ",") != 2 {
			return fmt.Errorf("it has %q", zones)
		}
		return nil
	})
	return zones
}

// kept looks at what leaders keep in the cluster, after they have died: zones as
// the first one chose them, and budgets where nobody else has made one.
func (s *haSite) kept(t *testing.T, zones string) {
	k := s.kube.For(t)
	if now := s.zonesOf(t); now != zones {
		t.Errorf("the zones are %s, and were %s", now, zones)
	}
	k.Apply(strings.ReplaceAll(strings.ReplaceAll(haComponents, "PREFIX", haconfig.DefaultPrefix), "metadata: {name:",
		"metadata: {namespace: "+haNamespace+", name:"))
	k.Await("budgets", "theirs   ;trivet-deployment-ctl 1 AlwaysAllow ctl;",
		"{range .items[*]}{.metadata.name} {.spec.maxUnavailable} {.spec.unhealthyPodEvictionPolicy} {.metadata.ownerReferences[0].name};{end}",
		"pdb", "-n", haNamespace)
	if got := k.Get("{.metadata.labels} {.metadata.annotations}", "namespace/haconfig-few"); strings.Contains(got,
		haconfig.DefaultPrefix) {
		t.Errorf("two zones to survive one: %s", got)
	}
	st, err := s.WaitLeader().Status()
	testenv.Must(t, err)
	if text := fmt.Sprint(st.Warnings); !strings.Contains(text, "haconfig_not_kept") ||
		!strings.Contains(text, "namespace haconfig-few: tolerance of zone needs 3 zones") {
		t.Errorf("the leader warns of %s", text)
	}
}

// tables compares what kubectl creates.
func (s *haSite) tables(t *testing.T) {
	k := s.kube.For(t)
	if _, err := k.Try(strings.ReplaceAll(haComponents, "PREFIX", haconfig.DefaultPrefix), "apply", "-n", haNamespace,
		"-f", "-"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"deployment/ctl": "2 kubernetes.io/hostname/DoNotSchedule/2/app,tier/pod-template-hash topology.kubernetes.io/zone/DoNotSchedule/2/app,tier/pod-template-hash z1,z2 60",
		"statefulset/db": "3 kubernetes.io/hostname/DoNotSchedule/3/app/ topology.kubernetes.io/zone/DoNotSchedule/2/app/ z1,z2 60",
	} {
		var d appsv1.Deployment // a StatefulSet has what is looked at in the same places
		testenv.Must(t, json.Unmarshal([]byte(k.Kubectl("get", name, "-n", haNamespace, "-o", "json")), &d))
		if got := inWords(d); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := k.Get("{.spec.replicas} {.spec.template.spec.topologySpreadConstraints}", "deployment/left", "-n",
		haNamespace); got != "1 " {
		t.Errorf("what is to be left alone: %s", got)
	}
	if got := k.Get("{.spec.minReplicas} {.spec.maxReplicas}", "hpa/hpa", "-n", haNamespace); got != "2 2" {
		t.Errorf("the autoscaler: %s", got)
	}
	_, err := k.Try(strings.ReplaceAll(strings.Split(haComponents, "---")[1], "PREFIX", haconfig.DefaultPrefix)+"\n",
		"apply", "--dry-run=server", "-n", haNamespace, "-f", "-")
	if err != nil {
		t.Errorf("again: %v", err)
	}
	_, err = k.Try("", "annotate", "statefulset/db", "-n", haNamespace, "--overwrite",
		haconfig.DefaultPrefix+"replicas=three")
	if err == nil || !strings.Contains(err.Error(), "invalid syntax") {
		t.Errorf("an override that is no number: %v", err)
	}
}

// inWords is what the tables decide about an object.
func inWords(d appsv1.Deployment) string {
	pod := d.Spec.Template.Spec
	out := []string{fmt.Sprint(*d.Spec.Replicas)}
	for _, c := range pod.TopologySpreadConstraints {
		var labels []string
		for _, name := range []string{"app", "tier"} {
			if c.LabelSelector.MatchLabels[name] != "" {
				labels = append(labels, name)
			}
		}
		out = append(out, fmt.Sprintf("%s/%s/%d/%s/%s", c.TopologyKey, c.WhenUnsatisfiable, *c.MinDomains,
			strings.Join(labels, ","), strings.Join(c.MatchLabelKeys, ",")))
	}
	for _, term := range pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		out = append(out, strings.Join(term.MatchExpressions[0].Values, ","))
	}
	for _, toleration := range pod.Tolerations {
		out = append(out, fmt.Sprint(*toleration.TolerationSeconds))
	}
	return strings.Join(out, " ")
}

// killedDuring kills a peer that follows and starts it again, and then the leader,
// during a stream of creations.
func (s *haSite) killedDuring(t *testing.T, via string, n int) {
	t.Run("killed, via "+via, func(t *testing.T) {
		st := s.stream(via, n, 100*time.Millisecond)
		for i, leads := range []bool{false, true} {
			s.reached(st, n/5*(2*i+1))
			leader := s.WaitLeader()
			victim := leader
			if !leads {
				victim = s.Followers()[0]
			}
			victim.Kill9()
			s.reached(st, n/5*(2*i+2))
			victim.Start()
		}
		st.done.Wait()
		created, refused, unchanged := st.created.Load(), st.refused.Load(), st.unchanged.Load()
		t.Logf("%d created, %d refused (%s)", created, refused, st.why.Load())
		if unchanged != 0 {
			t.Errorf("%d were admitted without their settings", unchanged)
		}
		// 2 % of many; a death costs what is under way, however few there are.
		testenv.Figure(t, "labtest.haconfig_refused_"+via, float64(refused), "", testenv.AtMost(float64(max(n, 300))/50))
		var all appsv1.DeploymentList
		testenv.Must(t, json.Unmarshal([]byte(s.kube.For(t).Kubectl("get", "deployments", "-n", haNamespace, "-o", "json")),
			&all))
		seen := 0
		for _, d := range all.Items {
			if strings.HasPrefix(d.Name, via+"-") {
				if seen++; !asItShould(d) {
					t.Errorf("%s is there without its settings: %+v", d.Name, d.Spec)
				}
			}
		}
		if seen < int(created) {
			t.Errorf("%d are there of %d", seen, created)
		}
	})
}

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
