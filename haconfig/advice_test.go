package haconfig

import (
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
		want := "web:change web:change alone:pinned-volume alone:single-replica loose:shared-volume loose:no-spread loose:no-budget wrong:refused skipped:single-replica" + row.last
		if got := strings.Join(said, " "); got != want {
			t.Errorf("%s:\n%s, want\n%s", name, got, want)
		}
		if advice[0].Risk() || !strings.Contains(advice[0].Text, "spec.replicas becomes 2") || !advice[2].Risk() {
			t.Errorf("%+v", advice[0])
		}
	}
}

// TestManifestsThatCannotBeRead names the document.
func TestManifestsThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"a: [", "kind: x\n---\n- 1\n- 2\n", "apiVersion: a/b/c\nkind: x\n", "{apiVersion: v1, kind: Namespace, metadata: {name: [1]}}"} {
		if err := NewInventory().ReadManifests(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "document") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
