package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// released is what the compatible mode did about one Node since it stopped being Ready.
type released struct {
	at   time.Time // of the newest try
	pods []string  // that were deleted, or would be in a dry run
	err  error     // of the newest try
}

// text says what was done, "" for nothing.
func (r released) text(dry bool) string {
	switch {
	case r.at.IsZero():
		return ""
	case dry:
		return fmt.Sprintf("dry run: %d pods would have been deleted %v ago, as it was not Ready: %s", len(r.pods),
			rounded(time.Since(r.at)), listed(r.pods))
	}
	return fmt.Sprintf("%d pods were deleted, the last %v ago, as it was not Ready: %s", len(r.pods),
		rounded(time.Since(r.at)), listed(r.pods))
}

// tried notes one try for an edge. The first try of another edge of a Node begins again.
func (e *edges) tried(one edge, pods []string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.done[one.uid]
	if one.tries == 0 {
		r = released{}
	}
	if len(pods) > 0 || err != nil || !r.at.IsZero() {
		e.done[one.uid] = released{time.Now(), append(slices.Clone(r.pods), pods...), err}
	}
}

// view is what the compatible mode does about a Node, and why: it goes by Ready alone.
func (e *edges) view(v Verdict, held string, dry bool) Verdict {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, done := e.nodes[v.Node.UID], e.done[v.Node.UID]
	queued := slices.IndexFunc(e.queue, func(q edge) bool { return q.uid == v.Node.UID })
	v.Suspect, v.Act, v.Would, v.Why, v.Rail = v.Node.Ready != kubestate.ReadyTrue, false, nothing, nil, ""
	switch {
	case !v.Suspect:
		v.Why = append(v.Why, "it is Ready")
	case !e.wanted(n):
		v.Why = append(v.Why, bySelection(&facts{settings: Settings{Remedy: Remedy{Nodes: func(Node) bool { return false }}}},
			&nodeFacts{}))
	case queued >= 0 && held != "":
		v.Why = append(v.Why, held)
	case queued >= 0:
		v.Would = deleteNooBaa
	case done.at.IsZero():
		v.Why = append(v.Why, "it is not Ready, and has no pod to delete, or never was Ready under this leader")
	}
	if queued >= 0 && done.err != nil {
		v.Why = append(v.Why, fmt.Sprintf("try %d failed: %v", e.queue[queued].tries, done.err))
	}
	if text := done.text(dry); text != "" {
		v.Why = append(v.Why, text)
	}
	return v
}

// announceReleased tells where people look what was deleted: in an Event of Kubernetes, in
// the events of this cluster, and in the log.
func (s *clusterController) announceReleased(ctx context.Context, one edge, pods []string, err error) {
	if errors.Is(err, errPaused) {
		err = nil // view says so
	}
	s.edges.tried(one, pods, err)
	if len(pods) == 0 || s.settings().DryRun {
		return
	}
	text := fmt.Sprintf(
		"%d pods deleted in mode noobaa, as the kube node was not Ready; its machine may still run them: %s", len(pods),
		listed(pods))
	s.log.Warn("pods of kube node that is not Ready deleted", "kube_node", one.node, "count", len(pods))
	s.writeEvent(ctx, Node{Name: one.node, UID: one.uid}, "Warning", "FailoverDeleted", text)
	if s.o.Report != nil {
		s.o.Report(eventring.Report{
			Topic: eventring.TopicRemediation, Action: "pods-deleted", Millis: s.o.Wall().UnixMilli(),
			Text:   fmt.Sprintf("Kube node %s/%s: %s.", s.cluster.Name(), one.node, text),
			Fields: map[string]string{"cluster": s.cluster.Name(), "kube_node": one.node, "pods": listed(pods)},
		})
	}
}
