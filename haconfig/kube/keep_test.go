package kube

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trivet-ha/trivet/haconfig"
)

// TestNamespaces reads all pages, without those that go, and writes one as it was
// read.
func TestNamespaces(t *testing.T) {
	c, s, _ := openOn(t)
	now := metav1.Now()
	s.on("GET /api/v1/namespaces", func(w http.ResponseWriter, r *http.Request) {
		page := &corev1.NamespaceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}}
		if r.URL.Query().Get("continue") == "" {
			page.Continue = "more"
			page.Items = []corev1.Namespace{
				{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u-a", ResourceVersion: "5", Labels: map[string]string{"l": "v"}}}}
		} else {
			page.Items = []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "u-b", DeletionTimestamp: &now}}}
		}
		give(page)(w, r)
	})
	all, there, err := c.Namespaces(t.Context())
	if err != nil || len(all) != 1 || all[0].Version != "5" || all[0].UID != "u-a" || all[0].Labels["l"] != "v" ||
		!there["u-b"] || len(there) != 2 {
		t.Fatalf("%+v %v %v", all, there, err)
	}
	var patch struct{ Metadata map[string]any }
	s.on("PATCH /api/v1/namespaces/a", func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil ||
			r.Header.Get("Content-Type") != "application/merge-patch+json" {
			t.Error(err, r.Header)
		}
		give(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}})(w, r)
	})
	value := "v"
	if err := c.PutNamespace(t.Context(), all[0],
		haconfig.Written{Annotations: map[string]*string{"set": &value, "gone": nil}}); err != nil {
		t.Fatal(err)
	}
	annotations := patch.Metadata["annotations"].(map[string]any)
	if gone, there := annotations["gone"]; patch.Metadata["uid"] != "u-a" || patch.Metadata["resourceVersion"] != "5" ||
		annotations["set"] != "v" || gone != nil || !there {
		t.Errorf("%v", patch.Metadata)
	}
	s.on("PATCH /api/v1/namespaces/a", refuse(403, metav1.StatusReasonForbidden, "may not"))
	if err := c.PutNamespace(t.Context(), all[0], haconfig.Written{}); err == nil ||
		!strings.Contains(err.Error(), "trivet haconfig manifest") {
		t.Error(err)
	}
}

// TestVolumeZones reads where the volumes of a namespace are.
func TestVolumeZones(t *testing.T) {
	c, s, _ := openOn(t)
	volume := func(namespace, zone string, phase corev1.PersistentVolumePhase) corev1.PersistentVolume {
		v := corev1.PersistentVolume{Status: corev1.PersistentVolumeStatus{Phase: phase}}
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: "c"}
		v.Labels = map[string]string{corev1.LabelTopologyZone: zone}
		return v
	}
	s.on("GET /api/v1/persistentvolumes",
		give(&corev1.PersistentVolumeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeList"},
			Items: []corev1.PersistentVolume{volume("n", "a", corev1.VolumeBound), volume("n", "b", corev1.VolumeReleased),
				volume("m", "c", corev1.VolumeBound), {}}}))
	if zones, err := c.VolumeZones(t.Context()); err != nil || len(zones) != 2 || len(zones["n"]) != 1 ||
		zones["n"][0] != "a" {
		t.Errorf("%v %v", zones, err)
	}
}

// TestPlaces reads the labels of Nodes, and nothing else of them.
func TestPlaces(t *testing.T) {
	c, s, _ := openOn(t)
	s.on("GET /api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != metadataOnly {
			t.Errorf("whole Nodes are read: %v", r.Header)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[
{"metadata":{"name":"a","labels":{"topology.kubernetes.io/zone":"z1","worker.gardener.cloud/pool":"p","worker.gardener.cloud/system-components":"true"}}},
{"metadata":{"name":"b","deletionTimestamp":"2026-01-01T00:00:00Z","labels":{"topology.kubernetes.io/zone":"z2"}}},
{"metadata":{"name":"c","labels":{"worker.gardener.cloud/system-components":"false"}}}]}`)) // who asked may have gone
	})
	all, err := c.Places(t.Context())
	if err != nil || !slices.Equal(all, []haconfig.Place{{Zone: "z1", Pool: "p", System: true}, {}}) {
		t.Errorf("%+v %v", all, err)
	}
}

// TestBudgets reads what is labelled, and writes what holds for what was read.
func TestBudgets(t *testing.T) {
	c, s, _ := openOn(t)
	var selectors []string
	empty := func(w http.ResponseWriter, r *http.Request) {
		selectors = append(selectors, r.URL.Query().Get("labelSelector"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"metadata":{},"items":[]}`)) // who asked may have gone
	}
	for _, path := range []string{"/api/v1/namespaces", "/apis/apps/v1/deployments", "/apis/apps/v1/statefulsets",
		"/apis/policy/v1/poddisruptionbudgets"} {
		s.on("GET "+path, empty)
	}
	if _, err := c.Guarded(t.Context(), false); err != nil || len(selectors) != 4 || selectors[0] != "" ||
		selectors[1] != haconfig.DefaultPrefix+"type,!"+haconfig.DefaultPrefix+"skip" || selectors[3] != "" {
		t.Errorf("%q %v", selectors, err)
	}
	if _, err := c.Guarded(t.Context(), true); err != nil || selectors[5] != "!"+haconfig.DefaultPrefix+"skip" {
		t.Errorf("%q %v", selectors, err)
	}
	b := policyv1.PodDisruptionBudget{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "b"}}
	const all = "/apis/policy/v1/namespaces/n/poddisruptionbudgets"
	s.on("POST "+all, give(&b))
	if err := c.PutBudget(t.Context(), b); err != nil {
		t.Error(err)
	}
	b.UID, b.ResourceVersion = "u", "7"
	s.on("PUT "+all+"/b", give(&b))
	if err := c.PutBudget(t.Context(), b); err != nil || s.count("PUT "+all+"/b") != 1 || s.count("POST "+all) != 1 {
		t.Error(err)
	}
	s.on("DELETE "+all+"/b", func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 4096)
		n, _ := r.Body.Read(body) // an answer says whether it was enough
		if !strings.Contains(string(body[:n]), "u") || !strings.Contains(string(body[:n]), "7") {
			t.Errorf("it is removed whichever it is: %q", body[:n])
		}
		refuse(404, metav1.StatusReasonNotFound, "gone")(w, r)
	})
	if err := c.DropBudget(t.Context(), b); err != nil {
		t.Error(err)
	}
	s.on("DELETE "+all+"/b", refuse(409, metav1.StatusReasonConflict, "another"))
	if err := c.DropBudget(t.Context(), b); err == nil {
		t.Error("a conflict is taken for done")
	}
}
