package failover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Values of the compatible mode.
const (
	// noobaaLabel and noobaaApp select the pods, as NooBaa's own controller does.
	noobaaLabel = "app"
	noobaaApp   = "noobaa"
	// noobaaFirst and noobaaLast are the first and the longest pause before a node is
	// tried again; each is twice the one before.
	noobaaFirst = 100 * time.Millisecond
	noobaaLast  = time.Minute
	// noobaaIdle is how often the queue is looked at.
	noobaaIdle = 50 * time.Millisecond
)

// edges turns what is seen of Nodes into a queue of those that stopped being
// Ready. Each is in it once; its length is bounded by the number of Nodes. All
// methods may be called concurrently.
type edges struct {
	wanted func(Node) bool

	mu     sync.Mutex
	synced bool
	nodes  map[string]Node     // by UID, as they were seen last
	queue  []edge              // in the order in which they came
	done   map[string]released // by UID
}

func newEdges(wanted func(Node) bool) *edges {
	return &edges{wanted: wanted, nodes: make(map[string]Node), done: make(map[string]released)}
}

type edge struct {
	node, uid string
	tries     int
	due       time.Time
}

// node sees a Node: it acts when it stops being Ready, or when it was not
// when the watch began. One that is made not Ready later never was.
func (e *edges) node(n Node) {
	e.mu.Lock()
	defer e.mu.Unlock()
	old, known := e.nodes[n.UID]
	e.nodes[n.UID] = n
	was, ready := old.Ready == kubestate.ReadyTrue, n.Ready == kubestate.ReadyTrue
	if left := known && was || !known && !e.synced; left && !ready && e.wanted(n) {
		e.put(edge{node: n.Name, uid: n.UID, due: time.Now()})
	}
}

func (e *edges) put(one edge) {
	if !slices.ContainsFunc(e.queue, func(q edge) bool { return q.uid == one.uid }) {
		e.queue = append(e.queue, one)
	}
}

// nodeGone sees that a Node was deleted. It is no edge, and ends the one that was: another
// Node may have the name by now.
func (e *edges) nodeGone(uid string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.nodes, uid)
	delete(e.done, uid)
	e.queue = slices.DeleteFunc(e.queue, func(q edge) bool { return q.uid == uid })
}

func (e *edges) allTold() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.synced = true
}

// stands reports whether an edge still counts: a pause, or a row of failures, may be
// longer than a machine needs to return. One that is Ready again, or not selected any
// more, keeps its pods; so does another Node of the same name.
func (e *edges) stands(uid string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, known := e.nodes[uid]
	return known && n.Ready != kubestate.ReadyTrue && e.wanted(n)
}

// takeDue removes the first edge that is due.
func (e *edges) takeDue() (edge, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.queue, func(q edge) bool { return time.Until(q.due) <= 0 })
	if i < 0 {
		return edge{}, false
	}
	one := e.queue[i]
	e.queue = slices.Delete(e.queue, i, i+1)
	return one, true
}

// again puts an edge back that could not be handled.
func (e *edges) again(one edge) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one.due = time.Now().Add(min(noobaaFirst<<min(one.tries, 16), noobaaLast))
	one.tries++
	if _, known := e.nodes[one.uid]; known {
		e.put(one)
	}
}

// tapped is a Watcher that tells what it sees of Nodes to edges as well.
type tapped struct {
	Watcher
	tap *edges
}

// Watch implements Watcher.
func (t tapped) Watch(ctx context.Context, seen Seen, synced func()) error {
	return t.Watcher.Watch(ctx, seenThrough{seen, t.tap}, func() {
		t.tap.allTold()
		synced()
	})
}

// seenThrough is a Seen that passes what it sees on to edges as well, but for Leases, which
// count for nothing there.
type seenThrough struct {
	Seen
	tap *edges
}

// Node implements Seen.
func (s seenThrough) Node(n Node) {
	s.Seen.Node(n)
	s.tap.node(n)
}

// NodeGone implements Seen.
func (s seenThrough) NodeGone(name, uid string) {
	s.Seen.NodeGone(name, uid)
	s.tap.nodeGone(uid)
}

// noobaa does what NooBaa's own controller does, one node after the other, until
// ctx ends: no proof, no limit. What stops it, also between two deletions, is a pause,
// the end of the leadership, and that the node is Ready again or not selected any more.
func (s *clusterController) noobaa(ctx context.Context) {
	for {
		if v, _ := s.o.Log.Changed(); !s.paused(v) {
			if one, ok := s.edges.takeDue(); ok {
				err := s.release(ctx, one)
				switch {
				case errors.Is(err, errPaused):
					s.edges.again(one)
				case err != nil && ctx.Err() == nil:
					s.failing.Warn("delete pods of kube node that is not Ready failed, retrying", "kube_node", one.node, "tries",
						one.tries+1, "err", err)
					s.edges.again(one)
				}
				continue
			}
		}
		if !pace.Wait(ctx, noobaaIdle) {
			return
		}
	}
}

func (s *clusterController) paused(v fsm.View) bool {
	_, paused := v.FailoverPause(s.cluster.Name())
	return paused
}

// errPaused says that failover was paused between two deletions.
var errPaused = errors.New("failover is paused")

// release deletes NooBaa's pods on a node, and tells of it. A deletion that fails keeps no
// other pod; the first such error is returned.
func (s *clusterController) release(ctx context.Context, one edge) error {
	pods, err := one.pods(ctx, s)
	var deleted []string
	for _, p := range pods {
		if s.settings().NooBaa.keeps(p) != "" {
			continue
		}
		failed := s.releasePod(ctx, one, p)
		if failed == nil {
			deleted = append(deleted, p.Namespace+"/"+p.Name)
			continue
		}
		if ends := ctx.Err() != nil || errors.As(failed, new(errUnproven)) || errors.Is(failed, errPaused) ||
			errors.Is(failed, errReadyAgain); ends {
			err = failed
			break
		}
		err = cmp.Or(err, failed)
	}
	if errors.Is(err, errReadyAgain) {
		s.log.Info("kube node is Ready again or not selected any more; its pods stay", "kube_node", one.node)
		err = nil
	}
	s.announceReleased(ctx, one, deleted, err)
	return cmp.Or(err, ctx.Err())
}

// errReadyAgain says that an edge does not count any more.
var errReadyAgain = errors.New("the kube node is Ready again or not selected any more")

// pods lists the pods of a node, unless the storage says that it is Ready again:
// the watch may be behind.
func (one edge) pods(ctx context.Context, s *clusterController) ([]Pod, error) {
	limited, cancel := context.WithTimeout(ctx, s.settings().Remedy.Timeout)
	defer cancel()
	n, err := s.cluster.Node(limited, one.node)
	switch {
	case errors.Is(err, ErrGone), err == nil && (n.UID != one.uid || n.Ready == kubestate.ReadyTrue):
		return nil, errReadyAgain
	case err != nil:
		return nil, fmt.Errorf("read the Node %s: %w", one.node, err)
	}
	pods, err := s.cluster.Pods(limited, one.node)
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", one.node, err)
	}
	return pods, nil
}

// releasePod deletes one pod, unless something has come up since they were listed.
func (s *clusterController) releasePod(ctx context.Context, one edge, p Pod) error {
	if s.settings().DryRun {
		s.log.Info("dry run: pod would be deleted", "namespace", p.Namespace, "pod", p.Name, "kube_node", one.node)
		return nil
	}
	switch v, _ := s.o.Log.Changed(); {
	case !s.edges.stands(one.uid):
		return errReadyAgain
	case s.paused(v):
		return errPaused
	}
	p.ResourceVersion = "" // the UID alone: NooBaa does not care what changed meanwhile
	return s.deletePod(ctx, p)
}
