package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/test/testwait"
)

// told gathers what a Watch tells.
type told chan string

func (t told) Node(n failover.Node)                    { t.put("node " + n.Name + " " + n.UID) }
func (t told) NodeGone(name, uid string)               { t.put("gone " + name + " " + uid) }
func (t told) Renewed(node string, r failover.Renewal) { t.put("renewed " + node + " " + r.At) }
func (t told) synced()                                 { t.put("synced") }
func (t told) put(s string) {
	select {
	case t <- s:
	default:
		panic("no test reads what the watch tells: " + s)
	}
}
func (t told) next(test *testing.T) string {
	test.Helper()
	return testwait.Receive(test, t, "what the watch tells next")
}

// want takes what is told next, in this order but for what the two kinds do to
// each other's.
func (t told) want(test *testing.T, all ...string) {
	test.Helper()
	missing := map[string]bool{}
	for _, s := range all {
		missing[s] = true
	}
	for range all {
		s := t.next(test)
		if !missing[s] {
			test.Fatalf("told %q, want %q", s, all)
		}
		delete(missing, s)
	}
}

// stream is a watch of the server: what is sent goes to the client that watches,
// and nil cuts the connection.
type stream chan *metav1.WatchEvent

func (s stream) send(t *testing.T, e *metav1.WatchEvent) {
	t.Helper()
	testwait.Send(t, s, e, "a client that watches takes the event")
}

func (s stream) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case e := <-s:
			if e == nil {
				panic(http.ErrAbortHandler)
			}
			if json.NewEncoder(w).Encode(e) != nil {
				return
			}
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// note puts one into a channel that is not full yet.
func note(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func event(kind string, object runtime.Object) *metav1.WatchEvent {
	return &metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Object: object}}
}

const (
	nodesPath  = " /api/v1/nodes"
	leasesPath = " /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
)

// watched is a cluster of two Nodes that is being watched.
func watched(t *testing.T) (c *Cluster, s *server, seen told, nodes, leases stream) {
	c, s = openOn(t)
	seen, nodes, leases = make(told, 100), make(stream), make(stream)
	s.on("GET"+nodesPath, give(nodeList("10", node("a", "u1", "9"), node("b", "u2", "8"))))
	s.on("GET"+leasesPath, give(leaseList("10", map[string]time.Time{"a": time.Unix(1, 0), "b": time.Unix(2, 0)})))
	s.on("WATCH"+nodesPath, nodes.serve)
	s.on("WATCH"+leasesPath, leases.serve)
	s.on("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Watch(ctx, seen, seen.synced) }()
	t.Cleanup(func() {
		cancel()
		if err := testwait.Receive(t, done, "the watch ends"); err != nil {
			t.Error(err)
		}
	})
	// "synced" is told after the lists. A test that replaces the answer to a watch
	// must not do so before the first one was asked for.
	s.await(t, "WATCH"+nodesPath)
	s.await(t, "WATCH"+leasesPath)
	return c, s, seen, nodes, leases
}

func nodeList(version string, nodes ...*corev1.Node) *corev1.NodeList {
	list := &corev1.NodeList{TypeMeta: kindNodes, ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, n := range nodes {
		list.Items = append(list.Items, *n)
	}
	return list
}

func TestWatch(t *testing.T) {
	_, _, seen, nodes, leases := watched(t)
	seen.want(t, "node a u1", "node b u2", "renewed a 1970-01-01T00:00:01.000000Z",
		"renewed b 1970-01-01T00:00:02.000000Z", "synced")
	leases.send(t, event("MODIFIED", leaseAt("a", "11", time.Unix(3, 5000))))
	seen.want(t, "renewed a 1970-01-01T00:00:03.000005Z")
	leases.send(t, event("MODIFIED", leaseAt("a", "12", time.Unix(3, 5000)))) // another field of it
	nodes.send(t, event("MODIFIED", node("a", "u1", "13")))
	seen.want(t, "node a u1")
	nodes.send(t, event("DELETED", node("a", "u1", "14")))
	seen.want(t, "gone a u1")
	nodes.send(t, event("ADDED", node("a", "u3", "15")))
	seen.want(t, "node a u3")
}

func TestWatchIsCut(t *testing.T) {
	_, s, seen, nodes, leases := watched(t)
	seen.want(t, "node a u1", "node b u2", "renewed a 1970-01-01T00:00:01.000000Z",
		"renewed b 1970-01-01T00:00:02.000000Z", "synced")
	nodes.send(t, event("MODIFIED", node("b", "u2", "20")))
	seen.want(t, "node b u2")
	nodes.send(t, nil)
	nodes.send(t, event("MODIFIED", node("b", "u2", "21")))
	seen.want(t, "node b u2")
	last := ""
	for _, r := range s.requests() {
		if q := r.URL.Query(); q.Has("watch") && strings.HasSuffix(r.URL.Path, "nodes") {
			last = q.Get("resourceVersion")
		}
	}
	if last != "20" {
		t.Errorf("went on after %s", last)
	}

	// What was missed does not exist any more: list again. Node a was deleted and b
	// is another one.
	s.on("GET"+nodesPath, give(nodeList("30", node("b", "u4", "29"))))
	nodes.send(t, event("ERROR",
		&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: 410,
			Reason: metav1.StatusReasonExpired, Message: "too old resource version"}))
	seen.want(t, "gone b u2", "node b u4", "gone a u1")
	leases.send(t, event("MODIFIED", leaseAt("b", "31", time.Unix(4, 0))))
	seen.want(t, "renewed b 1970-01-01T00:00:04.000000Z")
}

func TestAnswersWhileBlind(t *testing.T) {
	c, s, seen, _, leases := watched(t)
	seen.want(t, "node a u1", "node b u2", "renewed a 1970-01-01T00:00:01.000000Z",
		"renewed b 1970-01-01T00:00:02.000000Z", "synced")
	if err := c.Answers(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused := make(chan struct{}, 100)
	s.on("WATCH"+leasesPath, func(w http.ResponseWriter, r *http.Request) {
		refuse(403, metav1.StatusReasonForbidden, "leases is forbidden")(w, r)
		note(refused)
	})
	leases.send(t, nil)
	for range 2 { // the second comes after the first was noted
		testwait.Receive(t, refused, "a watch is refused")
	}
	err := c.Answers(t.Context())
	if !errors.Is(err, failover.ErrForbidden) ||
		!strings.Contains(err.Error(), "its leases.coordination.k8s.io are not seen: watch leases.coordination.k8s.io") {
		t.Errorf("it answers and is not seen: %v", err)
	}
	s.on("WATCH"+leasesPath, leases.serve)
	leases.send(t, event("MODIFIED", leaseAt("b", "31", time.Unix(4, 0))))
	seen.want(t, "renewed b 1970-01-01T00:00:04.000000Z")
	if err := c.Answers(t.Context()); err != nil {
		t.Error(err)
	}
	s.on("GET /readyz", refuse(500, metav1.StatusReasonInternalError, "etcd failed"))
	if err := c.Answers(t.Context()); err == nil || !strings.Contains(err.Error(), "get /readyz") {
		t.Error(err)
	}
}

func TestWatchWaitsForRights(t *testing.T) {
	c, s := openOn(t)
	seen := make(told, 100)
	refused := make(chan struct{}, 100)
	s.on("GET"+nodesPath, func(w http.ResponseWriter, r *http.Request) {
		refuse(403, metav1.StatusReasonForbidden, "nodes is forbidden")(w, r)
		note(refused)
	})
	s.on("GET"+leasesPath, give(leaseList("10", nil)))
	nodes, leases := make(stream), make(stream)
	s.on("WATCH"+nodesPath, nodes.serve)
	s.on("WATCH"+leasesPath, leases.serve)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Watch(ctx, seen, seen.synced) }()
	testwait.Receive(t, refused, "a list is refused")
	s.on("GET"+nodesPath, give(nodeList("10", node("a", "u1", "9"))))
	seen.want(t, "node a u1")
	seen.want(t, "synced")
	cancel()
	if err := testwait.Receive(t, done, "the watch ends"); err != nil {
		t.Error(err)
	}
}
