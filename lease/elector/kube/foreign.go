package kube

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/internal/kubeclient"
)

// AnnotationHolder is the holder that the mirror wrote. A program that
// takes the object over names another holder and leaves the annotation.
const AnnotationHolder = "trivet.dev/holder"

// holding is what an object says about its holder.
type holding struct {
	holder, renewed string
	duration        time.Duration
}

// seenHolder is a holding of another election and when it was first seen so.
type seenHolder struct {
	holding
	since time.Duration // of the elector's clock
}

// held reads who holds an object, for either kind.
func (o object) held() holding {
	if o.Spec.Holder != "" {
		return holding{o.Spec.Holder, o.Spec.Renewed, time.Duration(o.Spec.Duration) * time.Second}
	}
	var r oldRecord
	if json.Unmarshal([]byte(o.Metadata.Annotations[AnnotationLeader]), &r) != nil {
		return holding{} // it is no record
	}
	return holding{r.Holder, r.Renewed.Format(microTime), time.Duration(r.Duration) * time.Second}
}

// foreign reports whether another election wrote the object last. An object that an
// earlier version of the mirror wrote has a token and no holder.
func (o object) foreign(h holding) bool {
	_, token := o.Metadata.Annotations[kubeclient.AnnotationToken]
	ours, named := o.Metadata.Annotations[AnnotationHolder]
	return h.holder != "" && (!token || named && ours != h.holder)
}

// mayTake fails with ErrForeign while another election holds the object. Its time is
// counted from the moment at which its renewal was first seen, as client-go does it:
// never from what its clock wrote.
func (m *Mirror) mayTake(there *object, resource string, now time.Duration) error {
	h := there.held()
	if !there.foreign(h) {
		delete(m.seen, resource)
		return nil
	}
	seen, known := m.seen[resource]
	if !known || seen.holding != h {
		seen = seenHolder{h, now}
		m.seen[resource] = seen
	}
	if now-seen.since > max(h.duration, m.o.TTL) {
		return nil
	}
	return fmt.Errorf(
		"%w: %.100q, which is not a candidate of trivet, and is taken for alive for %v after it last renewed; stop it, or give the election another name",
		ErrForeign, h.holder, max(h.duration, m.o.TTL))
}
