package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trivet-ha/trivet/failover"
)

// memory is all that is kept of a cluster that is watched. It belongs to the
// goroutine of Watch.
type memory struct {
	seen   failover.Seen
	synced func()
	uids   map[string]string           // of Nodes by name; nil before the first list
	beats  map[string]failover.Renewal // of Leases by Node; nil before the first list
	whole  bool                        // whether synced was called
}

// listed says, once, that everything is known that existed.
func (m *memory) listed() {
	if !m.whole && m.uids != nil && m.beats != nil {
		m.whole = true
		m.synced()
	}
}

func (m *memory) node(n failover.Node) {
	if uid, known := m.uids[n.Name]; known && uid != n.UID {
		m.seen.NodeGone(n.Name, uid) // its end was missed, another has its name
	}
	m.uids[n.Name] = n.UID
	m.seen.Node(n)
}

func (m *memory) nodeGone(name string) {
	if uid, known := m.uids[name]; known {
		delete(m.uids, name)
		m.seen.NodeGone(name, uid)
	}
}

// nodes takes a whole list.
func (m *memory) nodes(all []failover.Node) {
	if m.uids == nil {
		m.uids = map[string]string{}
	}
	here := map[string]bool{}
	for _, n := range all {
		here[n.Name] = true
		m.node(n)
	}
	for _, name := range slices.Sorted(maps.Keys(m.uids)) {
		if !here[name] {
			m.nodeGone(name)
		}
	}
	m.listed()
}

// lease is a Lease and when its kubelet says that it renewed it.
type lease struct {
	node    string
	renewal failover.Renewal
}

func leaseOf(l *coordinationv1.Lease) lease {
	var r failover.Renewal
	if l.Spec.RenewTime != nil {
		r.At = l.Spec.RenewTime.UTC().Format(metav1.RFC3339Micro)
	}
	r.Version, _ = strconv.ParseUint(l.ResourceVersion, 10, 64) // 0 where it is no number
	return lease{l.Name, r}
}

// renewed tells of a Lease that is not as it was, or as it was long ago.
func (m *memory) renewed(l lease) {
	before, known := m.beats[l.node]
	m.beats[l.node] = l.renewal
	if !known || before.At != l.renewal.At || l.renewal.Version < before.Version {
		m.seen.Renewed(l.node, l.renewal)
	}
}

// leases takes a whole list.
func (m *memory) leases(all []lease) {
	before := m.beats
	m.beats = make(map[string]failover.Renewal, len(all))
	for _, l := range all {
		l.renewal.Stored = true
		if renewal, known := before[l.node]; known {
			m.beats[l.node] = renewal // and forget those that are gone
		}
		m.renewed(l)
	}
	m.listed()
}

// teller turns objects of one kind into what memory is told.
type teller interface {
	changed(object any) (func(*memory), error)
	gone(object any) (func(*memory), error)
	all(objects []any) (func(*memory), error)
}

// tellerOf is the teller of one kind: keep takes what failover needs from an object, and
// the other functions tell memory of one object, of the end of one, and of a whole list.
type tellerOf[O metav1.Object, T any] struct {
	keep func(O) T
	one  func(*memory, T)
	end  func(m *memory, name string)
	list func(*memory, []T)
}

func (k tellerOf[O, T]) changed(object any) (func(*memory), error) {
	o, err := of[O](object)
	if err != nil {
		return nil, err
	}
	kept := k.keep(o)
	return func(m *memory) { k.one(m, kept) }, nil
}

func (k tellerOf[O, T]) gone(object any) (func(*memory), error) {
	o, err := of[O](object)
	if err != nil {
		return nil, err
	}
	return func(m *memory) { k.end(m, o.GetName()) }, nil
}

func (k tellerOf[O, T]) all(objects []any) (func(*memory), error) {
	kept := make([]T, 0, len(objects))
	for _, object := range objects {
		o, err := of[O](object)
		if err != nil {
			return nil, err
		}
		kept = append(kept, k.keep(o))
	}
	return func(m *memory) { k.list(m, kept) }, nil
}

func of[T any](object any) (T, error) {
	t, ok := object.(T)
	if !ok {
		return t, fmt.Errorf("the API server sent a %T", object)
	}
	return t, nil
}

// outlet is where a reflector puts what it sees. Its caller is one goroutine.
type outlet struct {
	ctx  context.Context
	told chan<- func(*memory)
	teller
}

func (o *outlet) send(tell func(*memory), err error) error {
	if err != nil {
		return err
	}
	select {
	case o.told <- tell:
		return nil
	case <-o.ctx.Done():
		return context.Cause(o.ctx)
	}
}

// Add implements cache.ReflectorStore.
func (o *outlet) Add(object any) error { return o.send(o.changed(object)) }

// Update implements cache.ReflectorStore.
func (o *outlet) Update(object any) error { return o.send(o.changed(object)) }

// Delete implements cache.ReflectorStore.
func (o *outlet) Delete(object any) error { return o.send(o.gone(object)) }

// Replace implements cache.ReflectorStore.
func (o *outlet) Replace(objects []any, _ string) error { return o.send(o.all(objects)) }

// Resync implements cache.ReflectorStore; there is nothing to tell again.
func (o *outlet) Resync() error { return nil }
