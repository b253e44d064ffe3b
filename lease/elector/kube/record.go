package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/internal/kubeclient"
	"github.com/trivet-ha/trivet/lease/elector"
)

// AnnotationLeader is where leader-elector keeps its record, and older clients look.
const AnnotationLeader = "control-plane.alpha.kubernetes.io/leader"

// ErrForeign says that another election holds the object and renews it.
var ErrForeign = errors.New("another election holds it")

// ErrNewer says that a later leader has written, so that this one is a former
// leader.
var ErrNewer = errors.New("a later leader has written there")

// microTime is how Kubernetes writes times in a Lease.
const microTime = "2006-01-02T15:04:05.000000Z"

// object is as much of one as is read.
type object struct {
	Metadata struct {
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec leaseSpec `json:"spec"` // of a Lease
}

// leaseSpec is that of a Lease in coordination.k8s.io/v1.
type leaseSpec struct {
	Holder      string `json:"holderIdentity"`
	Duration    int    `json:"leaseDurationSeconds"`
	Acquired    string `json:"acquireTime"`
	Renewed     string `json:"renewTime"`
	Transitions int    `json:"leaseTransitions"`
}

// oldRecord is what stands in AnnotationLeader.
type oldRecord struct {
	Holder      string    `json:"holderIdentity"`
	Duration    int       `json:"leaseDurationSeconds"`
	Acquired    time.Time `json:"acquireTime"`
	Renewed     time.Time `json:"renewTime"`
	Transitions int       `json:"leaderTransitions"`
}

// token is the one under which an object was written last; zero if the object has
// no token.
func (o object) token() (fencing.Token, error) {
	text, written := o.Metadata.Annotations[kubeclient.AnnotationToken]
	if !written {
		return 0, nil
	}
	token, err := fencing.ParseToken(text)
	if err != nil {
		return 0, fmt.Errorf("annotation %s: %.40q is not a fencing token: remove the annotation if no other peer leads: %w",
			kubeclient.AnnotationToken, text, err)
	}
	return token, nil
}

// mayWrite compares the token in place with ours. changed says that ours is another
// grant than the one that was written.
func (o object) mayWrite(w elector.Claim) (changed bool, err error) {
	there, err := o.token()
	if err == nil && there > w.Token {
		err = fmt.Errorf("%w: its token is %v, ours %v", ErrNewer, there, w.Token)
	}
	return there != w.Token, err
}

// patch is a merge patch that holds for the object as it was read. Without one it is
// the new object.
type patch struct {
	APIVersion string        `json:"apiVersion,omitempty"`
	Kind       string        `json:"kind,omitempty"`
	Metadata   patchMetadata `json:"metadata"`
	Spec       *leaseSpec    `json:"spec,omitempty"`
}

type patchMetadata struct {
	Name            string            `json:"name,omitempty"`
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Annotations     map[string]string `json:"annotations"`
}

func newPatch(there *object, w elector.Claim) patch {
	p := patch{Metadata: patchMetadata{
		Annotations: map[string]string{kubeclient.AnnotationToken: w.Token.String(), AnnotationHolder: w.Name}}}
	if there != nil {
		p.Metadata.UID, p.Metadata.ResourceVersion = there.Metadata.UID, there.Metadata.ResourceVersion
	}
	return p
}

// leasePatch is what a Lease becomes; there is nil for one that does not exist.
func leasePatch(there *object, w elector.Claim, ttl time.Duration, renewed time.Time) (patch, error) {
	now := renewed.UTC().Format(microTime)
	spec := leaseSpec{Holder: w.Name, Duration: seconds(ttl), Acquired: now, Renewed: now}
	p := newPatch(there, w)
	p.Spec = &spec
	if there == nil {
		return p, nil
	}
	changed, err := there.mayWrite(w)
	spec.Transitions = there.Spec.Transitions
	if changed {
		spec.Transitions = next(spec.Transitions)
	} else {
		spec.Acquired = there.Spec.Acquired
	}
	return p, err
}

// endpointsPatch is what an Endpoints object becomes. Another program owns its
// subsets.
func endpointsPatch(there *object, w elector.Claim, ttl time.Duration, renewed time.Time) (patch, error) {
	now := renewed.UTC().Truncate(time.Second)
	record := oldRecord{Holder: w.Name, Duration: seconds(ttl), Acquired: now, Renewed: now}
	p := newPatch(there, w)
	if there != nil {
		changed, err := there.mayWrite(w)
		if err != nil {
			return p, err
		}
		var old oldRecord
		// else it begins again
		if text := there.Metadata.Annotations[AnnotationLeader]; json.Unmarshal([]byte(text), &old) == nil {
			record.Transitions = old.Transitions
			if changed {
				record.Transitions = next(old.Transitions)
			} else {
				record.Acquired = old.Acquired
			}
		}
	}
	text, err := json.Marshal(record)
	p.Metadata.Annotations[AnnotationLeader] = string(text)
	return p, err
}

// next counts up within 31 bits, as the API server wants it.
func next(transitions int) int {
	if transitions < 0 || transitions >= math.MaxInt32 {
		return 1
	}
	return transitions + 1
}

// seconds rounds up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
