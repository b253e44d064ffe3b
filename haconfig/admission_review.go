package haconfig

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// admissionReview is what an API server asks, and the answer, as far as it matters. It is
// the same in v1 and v1beta1 of admission.k8s.io.
type admissionReview struct {
	metav1.TypeMeta `json:",inline"`

	Request  *admissionRequest  `json:"request,omitempty"`
	Response *admissionResponse `json:"response,omitempty"`
}

// admissionRequest is the object that is to be created or changed.
type admissionRequest struct {
	UID       types.UID               `json:"uid"`
	Kind      metav1.GroupVersionKind `json:"kind"`
	Namespace string                  `json:"namespace,omitempty"`
	Name      string                  `json:"name,omitempty"`
	Object    runtime.RawExtension    `json:"object"`
}

// admissionResponse lets an object pass, with a patch or without, or refuses it.
type admissionResponse struct {
	UID       types.UID      `json:"uid"`
	Allowed   bool           `json:"allowed"`
	Result    *metav1.Status `json:"status,omitempty"`
	Patch     []byte         `json:"patch,omitempty"`
	PatchType string         `json:"patchType,omitempty"`
}
