package lease

import (
	"sync"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/leases"
)

// watchedGroups are the groups that callers watch. The members of one may be thousands, and so
// may its watchers: they share the tag, which one of them computes when that group changes. Its
// methods may be called concurrently.
type watchedGroups struct {
	hash func(members []leases.GroupMember) string

	mu  sync.Mutex
	all map[string]*watchedGroup // by component; those with watchers
}

// watchedGroup is a group with watchers.
type watchedGroup struct {
	component string
	hash      func(members []leases.GroupMember) string
	watchers  int // guarded by watchedGroups.mu

	mu   sync.Mutex // guards the rest; the others wait for one that computes the tag
	view fsm.View   // the newest that was asked about
	tag  string     // in that view; "" before the first
}

// watch adds a watcher, which calls leave in the end.
func (g *watchedGroups) watch(component string) *watchedGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.all[component]
	if w == nil {
		w = &watchedGroup{component: component, hash: g.hash}
		g.all[component] = w
	}
	w.watchers++
	return w
}

func (g *watchedGroups) leave(w *watchedGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.watchers--; w.watchers == 0 {
		delete(g.all, w.component)
	}
}

// tagAt returns the group's tag in a view. Where a newer one was asked about, it is the tag in
// that, and exact tells whether it is this view's, too.
func (w *watchedGroup) tagAt(v fsm.View) (tag string, exact bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	same := w.tag != "" && v.SameGroup(w.view, w.component)
	if w.tag != "" && v.Index() < w.view.Index() {
		return w.tag, same
	}
	if !same {
		w.tag = w.hash(v.Group(w.component))
	}
	w.view = v
	return w.tag, true
}
