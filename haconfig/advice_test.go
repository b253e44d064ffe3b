package haconfig

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const manifests = `
apiVersion: v1
kind: Namespace
metadata: {name: considered, labels: {PREFIXconsider: "true"}, annotations: {PREFIXfailure-tolerance-type: node}}
---
apiVersion: v1
kind: Namespace
metadata: {name: not}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: considered, labels: {PREFIXtype: server}}
spec: {replicas: 1, template: {metadata: {labels: {app: web}}, spec: {containers: []}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: considered}
spec: {selector: {matchLabels: {app: web}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: alone, namespace: not, labels: {PREFIXtype: server}}
spec: {replicas: 1, template: {spec: {volumes: [{name: v, hostPath: {path: /}}]}}}
---
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: loose, namespace: not}
  spec: {replicas: 2, template: {spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: asleep, namespace: not}
  spec: {replicas: 0}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: wrong, namespace: considered, labels: {PREFIXtype: server}, annotations: {PREFIXreplicas: many}}
spec: {replicas: 1, selector: {}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: skipped, namespace: considered, labels: {PREFIXtype: server, PREFIXskip: ""}}
spec: {replicas: 1}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: hpa, namespace: elsewhere, labels: {PREFIXtype: server}}
spec: {minReplicas: 1, maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
`

// TestAdvise reads manifests and compares all that is said of them.
func TestAdvise(t *testing.T) {
	all := NewInventory()
	if err := all.ReadManifests(strings.NewReader(strings.ReplaceAll(manifests, "PREFIX", DefaultPrefix))); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		fallback map[string]string
		last     string
	}{"considered elsewhere": {map[string]string{}, " hpa:change"}, "and not": {nil, ""}} {
		advice, err := all.Advise(conventions, 2, row.fallback)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, a := range advice {
			said = append(said, fmt.Sprintf("%s:%s", a.Name, a.Finding))
		}
		want := "web:change web:change alone:pinned-volume alone:single-replica loose:shared-volume loose:no-spread loose:no-budget wrong:refused skipped:single-replica" +
			row.last
		if got := strings.Join(said, " "); got != want {
			t.Errorf("%s:\n%s, want\n%s", name, got, want)
		}
		if advice[0].Risk() || !strings.Contains(advice[0].Text, "spec.replicas becomes 2") || !advice[2].Risk() {
			t.Errorf("%+v", advice[0])
		}
	}
}

// TestManifestsThatCannotBeRead names the object, or the line of one without a
// name, and reads the rest.
func TestManifestsThatCannotBeRead(t *testing.T) {
	const good = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: good}\n"
	for text, want := range map[string]string{
		"a: [": "the document at line 4: ",
		"{apiVersion: v1, kind: Namespace, metadata: {name: [1]}}":                                                            "Namespace without a name: ",
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: ns, labels: 1}}":                            "StatefulSet ns/db: ",
		"{apiVersion: v1, kind: List, items: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, labels: 1}}, 1]}": "Deployment web: ",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, ? [1] : 2}":                                           "Deployment web: ",
		"a: 1\n...\nb: 1": "the document at line 4: yaml: ",
		"a: 1\r---\rb: 1": "the document at line 4: another one begins in it",
		"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: ns}, spec: {maxReplicas: [1]}}":    "HorizontalPodAutoscaler ns/web: ",
		"{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: b, namespace: ns}, spec: {selector: {matchLabels: [1]}}}\n": "PodDisruptionBudget ns/b: ",
	} {
		all := NewInventory()
		err := all.ReadManifests(strings.NewReader(good + "---\n" + text + "\n---\n" + good))
		advice, unjudged := all.Advise(conventions, 2, map[string]string{})
		if err = errors.Join(err, unjudged); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		said := map[string]int{}
		for _, a := range advice {
			said[a.Name]++
		}
		if said["good"] < 2 {
			t.Errorf("rest-is-judged: %q: %v", text, advice)
		}
	}
}

// TestDocumentsOfNoUse passes over whatever advice does not depend on: what helm
// prints has more than Deployments.
func TestDocumentsOfNoUse(t *testing.T) {
	for _, text := range []string{
		"", "# nothing", "null", "1", "a text", "- 1\n- 2", "a: 1", "kind: x\napiVersion: a/b/c", "kind: x",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: tcp}, data: {9000: \"default/go:8080\", true: a, 1.5: b, null: c}}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [1], labels: {a: 1}}\ndata:\n  ? {a: b}\n  : c\n",
		"{apiVersion: v1, kind: ConfigMap, data: {a: 1, a: 2}}", "{apiVersion: v1, kind: Secret, data: .nan}",
		"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, data: {1: 2}}, null, 1]}",
	} {
		all := NewInventory()
		err := all.ReadManifests(strings.NewReader("---\n# Source: x\n---\n" + text + "\n---  \n" +
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, labels: {1: a, on: b}}, spec: {replicas: 1, template: {metadata: {labels: {8080: http}}}}}"))
		if err != nil {
			t.Errorf("rest-is-judged: %q: %v", text, err)
		}
		if advice, err := all.Advise(conventions, 2, map[string]string{}); err != nil || len(advice) == 0 {
			t.Errorf("rest-is-judged: %q: %v, %v", text, advice, err)
		}
	}
}

// TestManifestsAsKubectlReadsThem judges what kubectl takes as the API server gets it.
func TestManifestsAsKubectlReadsThem(t *testing.T) {
	const good = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: good}\n"
	one := func(labels, pod string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: good, labels: {" + labels +
			"}}\nspec: {replicas: 2, template: {spec: {" + pod + "}}}\n"
	}
	for name, text := range map[string]string{
		"a label twice":             one("app: a, app: a", ""),
		"truth values of YAML 1.1":  one("", "hostNetwork: yes, hostPID: on, shareProcessNamespace: n"),
		"helm: the first is broken": "--- # Source: a\na: [\n--- # Source: b\n" + good,
		"on the line of ---":        "--- {apiVersion: apps/v1, kind: Deployment, metadata: {name: good}}",
		"with a BOM, ended":         "\ufeff" + good + "...\n",
		"no separator":              "--- |\n  x\n  ---a\n---\t\r\n" + good,
	} {
		all := NewInventory()
		unread := all.ReadManifests(strings.NewReader(text))
		if (unread != nil) != (name == "helm: the first is broken") {
			t.Errorf("as-kubectl: %s: %v", name, unread)
		}
		advice, err := all.Advise(conventions, 2, map[string]string{})
		risks := map[string]int{}
		for _, a := range advice {
			risks[a.Finding]++
		}
		if err != nil || risks[FindingRefused] > 0 || risks[FindingBudget] == 0 && risks[FindingSingle] == 0 {
			t.Errorf("as-kubectl: %s: %v, %v", name, advice, err)
		}
	}
	all := NewInventory()
	err := all.ReadManifests(strings.NewReader("apiVersion: v1\nkind: Namespace\nmetadata: {name: a, name: b}"))
	if _, last := all.namespaces["b"]; !last || err != nil {
		t.Errorf("as-kubectl: of two keys %v is read, %v", all.namespaces, err)
	}
}

const volumes = `
apiVersion: v1
kind: Namespace
metadata: {name: ns, labels: {PREFIXconsider: "true"}, annotations: {PREFIXfailure-tolerance-type: zone, PREFIXzones: "a,b,c"}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: ns, labels: {PREFIXtype: server}}
spec: {replicas: 2, selector: {matchLabels: {a: db}}, template: {metadata: {labels: {a: db}}}, volumeClaimTemplates: [{metadata: {name: data}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ns, labels: {PREFIXtype: server}}
spec: {replicas: 2, template: {metadata: {labels: {a: db}}, spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: far}}, {name: w, persistentVolumeClaim: {claimName: local}}]}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: all, namespace: ns}
spec: {selector: {matchLabels: {a: db}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-0}, spec: {claimRef: {namespace: ns, name: data-db-0}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}]}}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-1, labels: {failure-domain.beta.kubernetes.io/zone: OTHER}}, spec: {claimRef: {namespace: ns, name: data-db-1}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-2}, spec: {claimRef: {namespace: ns, name: data-db-other-1}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.ebs.csi.aws.com/zone, operator: In, values: [z]}]}]}}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-3}, spec: {claimRef: {namespace: ns, name: far}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.gke.io/zone, operator: In, values: [z]}]}]}}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-4}, spec: {claimRef: {namespace: ns, name: local}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [h1]}]}]}}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv-5}, spec: {claimRef: {namespace: ns, name: data-db-2}}, status: {phase: Released}}
`

// TestVolumesPin says where volumes keep components.
func TestVolumesPin(t *testing.T) {
	for other, want := range map[string][]string{
		"a": {"db: all its volumes are in zone a: it does not survive that zone"}, "b": nil, "a__b": nil,
	} {
		all := NewInventory()
		if err := all.ReadManifests(
			strings.NewReader(strings.NewReplacer("PREFIX", DefaultPrefix, "OTHER", other).Replace(volumes))); err != nil {
			t.Fatal(err)
		}
		advice, err := all.Advise(conventions, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, a := range advice {
			if a.Finding == FindingPinned {
				said = append(said, a.Name+": "+a.Text)
			}
		}
		want = append(want,
			"web: the volume of claim far is in zone z, and its pods may run in a, b, c alone: they start nowhere",
			"web: the volume of claim local is on kube node h1: it is gone while that is")
		if fmt.Sprint(said) != fmt.Sprint(want) {
			t.Errorf("%s:\n%q, want\n%q", other, said, want)
		}
	}
}
