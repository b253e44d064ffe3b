package fsm

import "github.com/trivet-ha/trivet/fsm/codec"

// KubeReady is what a kube node's condition Ready says. The numbers are part of
// the log.
type KubeReady uint8

// The values of the condition; one that is missing is KubeUnknown.
const (
	KubeTrue    KubeReady = 1
	KubeFalse   KubeReady = 2
	KubeUnknown KubeReady = 3
)

var kubeReadies = [...]string{"", "True", "False", "Unknown"}

// String returns the value as Kubernetes writes it.
func (r KubeReady) String() string { return codec.NameOf(kubeReadies[:], "readiness", uint8(r)) }

// MarshalText implements encoding.TextMarshaler.
func (r KubeReady) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
