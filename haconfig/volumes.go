package haconfig

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// VolumeZones are the zones from which a volume can be mounted, sorted; none if it
// does not say. Drivers have keys of their own, which end alike.
func VolumeZones(v *corev1.PersistentVolume) []string {
	return places(v, func(key string) bool { return strings.HasSuffix(key, "/zone") })
}

// places are the values that a volume's node affinity requires of keys, and those of
// its labels, where old drivers wrote them.
func places(v *corev1.PersistentVolume, key func(string) bool) (all []string) {
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		for _, term := range a.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				if key(e.Key) && e.Operator == corev1.NodeSelectorOpIn {
					all = append(all, e.Values...)
				}
			}
		}
	}
	if len(all) > 0 {
		return distinct(all)
	}
	for name, value := range v.Labels {
		if key(name) {
			all = append(all, strings.Split(value, "__")...) // as regional disks have it
		}
	}
	return distinct(all)
}

// claimed are volumes by the claim that they are bound to, as NAMESPACE/CLAIM.
type claimed map[string]*corev1.PersistentVolume

func (c claimed) add(v *corev1.PersistentVolume) {
	if ref := v.Spec.ClaimRef; ref != nil && v.Status.Phase != corev1.VolumeReleased &&
		v.Status.Phase != corev1.VolumeFailed {
		c[ref.Namespace+"/"+ref.Name] = v
	}
}

// volumesOf are the volumes of a component: those that it names, and those that a
// StatefulSet's templates made.
func (c claimed) volumesOf(w running, of Component) (all []*corev1.PersistentVolume) {
	for _, v := range w.Spec.Template.Spec.Volumes {
		if claim := v.PersistentVolumeClaim; claim != nil {
			if found := c[of.Namespace+"/"+claim.ClaimName]; found != nil {
				all = append(all, found)
			}
		}
	}
	for _, template := range w.Spec.Templates {
		prefix := of.Namespace + "/" + template.Name + "-" + of.Name + "-"
		for name, v := range c {
			if ordinal, made := strings.CutPrefix(name, prefix); made && strings.Trim(ordinal, "0123456789") == "" {
				all = append(all, v)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *corev1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	return all
}
