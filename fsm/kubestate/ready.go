package kubestate

import "github.com/trivet-ha/trivet/fsm/codec"

// Ready is what a kube node's condition Ready says. The numbers are part of
// the log.
type Ready uint8

// The values of the condition; one that is missing is ReadyUnknown.
const (
	ReadyTrue    Ready = 1
	ReadyFalse   Ready = 2
	ReadyUnknown Ready = 3
)

var kubeReadies = [...]string{"", "True", "False", "Unknown"}

// String returns the value as Kubernetes writes it.
func (r Ready) String() string { return codec.NameOf(kubeReadies[:], "readiness", uint8(r)) }

// MarshalText implements encoding.TextMarshaler.
func (r Ready) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
