package main

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// electorManifest is the pod that docs/elector.md shows.
func electorManifest(t *testing.T) (pod corev1.Pod) {
	t.Helper()
	page, err := os.ReadFile("../docs/elector.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\nspec:\n")
	block, _, found := strings.Cut(rest, "```")
	if err := yaml.UnmarshalStrict([]byte("spec:\n"+block), &pod); err != nil || !found || len(pod.Spec.Containers) != 1 {
		t.Fatalf("the manifest of docs/elector.md: %v", err)
	}
	return pod
}

// TestElectorManifestIsRestricted holds the pod to the Pod Security standard
// "restricted".
func TestElectorManifestIsRestricted(t *testing.T) {
	spec := electorManifest(t).Spec
	c := spec.Containers[0]
	s := c.SecurityContext
	switch {
	case spec.HostNetwork || spec.HostPID || spec.HostIPC:
		t.Error("restricted: it shares the host's namespaces")
	case s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation:
		t.Error("restricted: privileges may be gained")
	case s.Privileged != nil && *s.Privileged:
		t.Error("restricted: it is privileged")
	case s.Capabilities == nil || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" ||
		len(s.Capabilities.Add) > 0:
		t.Errorf("restricted: capabilities %+v", s.Capabilities)
	case s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0:
		t.Error("restricted: it may run as root")
	case s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		t.Errorf("restricted: seccomp %+v", s.SeccompProfile)
	}
	for _, p := range c.Ports {
		if p.HostPort != 0 {
			t.Errorf("restricted: port %d of the host", p.HostPort)
		}
	}
	// The password: readable by the candidate, and not by all, which trivet refuses.
	const others = 0o007
	if len(spec.Volumes) != 1 || spec.Volumes[0].Secret == nil || *spec.Volumes[0].Secret.DefaultMode&others != 0 ||
		spec.SecurityContext.FSGroup == nil || *spec.SecurityContext.FSGroup != *s.RunAsUser {
		t.Errorf("the candidate cannot read its password: %+v", spec.Volumes)
	}
}
