package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/trivet-ha/trivet/failover"
)

// memory is all that is kept of a cluster that is watched.
type memory struct {
	ctx    context.Context // of Watch
	mu     sync.Mutex      // held while it tells; guards the rest
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

// tell does one thing after the other, until ctx has ended.
func (m *memory) tell(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx.Err() == nil {
		do()
	}
}

// store is where a reflector puts what it sees of one kind: keep takes what failover needs
// from an object, and the other functions tell memory of one object, of the end of one, and
// of a whole list.
type store[O metav1.Object, T any] struct {
	keep func(O) T
	one  func(*memory, T)
	end  func(m *memory, name string)
	list func(*memory, []T)
	*memory
}

// into is the store that fills a memory.
func (s store[O, T]) into(m *memory) cache.ReflectorStore {
	s.memory = m
	return s
}

// Add implements cache.ReflectorStore.
func (s store[O, T]) Add(object any) error {
	o, err := of[O](object)
	if err == nil {
		kept := s.keep(o)
		s.tell(func() { s.one(s.memory, kept) })
	}
	return err
}

// Update implements cache.ReflectorStore.
func (s store[O, T]) Update(object any) error { return s.Add(object) }

// Delete implements cache.ReflectorStore.
func (s store[O, T]) Delete(object any) error {
	o, err := of[O](object)
	if err == nil {
		s.tell(func() { s.end(s.memory, o.GetName()) })
	}
	return err
}

// Replace implements cache.ReflectorStore.
func (s store[O, T]) Replace(objects []any, _ string) error {
	kept := make([]T, 0, len(objects))
	for _, object := range objects {
		o, err := of[O](object)
		if err != nil {
			return err
		}
		kept = append(kept, s.keep(o))
	}
	s.tell(func() { s.list(s.memory, kept) })
	return nil
}

// Resync implements cache.ReflectorStore; there is nothing to tell again.
func (store[O, T]) Resync() error { return nil }

func of[T any](object any) (T, error) {
	t, ok := object.(T)
	if !ok {
		return t, fmt.Errorf("the API server sent a %T", object)
	}
	return t, nil
}
