package accept

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// lookUpLine begins the line of a callback whose node is not found.
const lookUpLine = "Look up error: "

// Continue takes a ramdisk's callback: it commits the document and the request
// to process it, waits until a worker somewhere has done that, and returns the
// node's UUID or the contract's refusal. A byte-identical repeat, on any peer,
// joins the first delivery and gets its answer (promise 5).
func (s *Service) Continue(ctx context.Context, body []byte) (node string, err error) {
	c := caller{bytes: len(body)}
	err = computing(ctx, len(body), func() (err error) {
		if c.data, err = document.Receive(body); err != nil {
			return inspector.Refuse(http.StatusBadRequest, "%v", err)
		}
		c.machine = identify.Of(c.data)
		return c.pack(s.o)
	})
	var request fencing.Token
	if err == nil {
		node, request, err = s.deliver(ctx, c) // waits for the log, Ironic and a worker
	}
	if err == nil {
		err = s.delivered(ctx, node, request, c.packed.Hash)
	}
	var said *inspector.Refusal
	failed := errors.As(err, &said) && said.Status != http.StatusServiceUnavailable // else it is repeated, logs and all
	if c.keeper != nil && (err == nil || failed) && c.keeper.Wants(failed) {
		s.logs.store(ctx, c.keeper, node, c.logs)
	}
	if err != nil {
		return "", err
	}
	return node, nil
}

// deliver commits a callback for the node that it belongs to, or finds the
// earlier delivery that it repeats.
func (s *Service) deliver(ctx context.Context, c caller) (node string, request fencing.Token, err error) {
	for range findTries {
		var v fsm.View
		if v, err = inspector.ReadView(ctx, s.o.Log, inspector.Linearizable); err != nil {
			return "", 0, err
		}
		a := identifying(ctx, s.finder.lists.search, func(search identify.Search) identify.Answer {
			return search.Started(ctx, v, c.machine)
		})
		if a.Verdict == identify.Repeated {
			return a.Node, a.Request, nil
		}
		if node, err = s.finder.find(ctx, v, c, a); err == nil {
			var queued introspection.Queued
			queued, err = s.accept(ctx, inspector.Callback{Node: node, Packed: c.packed, Data: c.data.Clone()})
			request = queued.Request
		}
		if !errors.Is(err, errStale) {
			return node, request, err
		}
	}
	return "", 0, inspector.Refuse(http.StatusServiceUnavailable,
		"The introspection of node %s changes all the time; repeat the callback", node)
}

// Expects returns the node under introspection that the beginning of a ramdisk's document
// names, as this peer has the state.
func (s *Service) Expects(beginning []byte) (node string, ok bool) {
	return identify.Named(s.o.Log.View(), beginning)
}

// takeLimit is how long a callback that a worker examines may be on its way into
// the log; then it is queued all the same.
const takeLimit = 5 * time.Second

// accept brings a callback into the log: begun by a worker of this peer, or in
// the queue.
func (s *Service) accept(ctx context.Context, c inspector.Callback) (queued introspection.Queued, err error) {
	if s.o.Taker != nil {
		taking, cancel := context.WithTimeout(ctx, takeLimit)
		defer cancel()
		if queued, ok := s.o.Taker.Take(taking, c); ok {
			return queued, nil
		}
	}
	res, err := inspector.Commit(ctx, s.o.Do,
		introspection.Enqueue{Node: c.Node, Event: introspection.EventProcess, Document: c.Packed})
	switch {
	case errors.Is(err, fsm.NotFound): // deleted since it was looked up
		return queued, inspector.Refuse(http.StatusBadRequest, inspector.FailuresHead+lookUpLine+"%s", res.Message)
	case err != nil:
		return queued, illegal(err)
	}
	return queued, res.Decode(&queued)
}

// delivered waits for the end of a callback and returns what it was answered.
func (s *Service) delivered(ctx context.Context, node string, request fencing.Token, document blobs.Hash) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	v, err := s.o.Notifier.Wait(ctx, func(v fsm.View) bool {
		_, known := answerOf(v, node, document)
		return known || ended(v, request)
	})
	if err != nil {
		return inspector.Refuse(http.StatusServiceUnavailable,
			"The callback of node %s was accepted and is not processed yet; repeat it", node)
	}
	if answer, known := answerOf(v, node, document); known {
		if answer.Status == http.StatusOK {
			return nil
		}
		return &inspector.Refusal{Status: answer.Status, Message: answer.Message}
	}
	// It was consumed without effect: another one ended the introspection first, or it was started again.
	rec, ok := v.Record(node)
	if !ok {
		return inspector.Refuse(http.StatusBadRequest, inspector.FailuresHead+lookUpLine+"Could not find node %s in cache",
			node)
	}
	why, over := map[introspection.NodeState]string{introspection.NodeError: rec.Error,
		introspection.NodeAborting: "Canceled by operator", introspection.NodeFinished: "None"}[rec.State]
	if !over {
		return inspector.Refuse(http.StatusBadRequest, "The introspection of node %s was started again meanwhile", node)
	}
	return inspector.Refuse(http.StatusBadRequest, "Node processing already finished with error: %s", why)
}

// answerOf finds the answer to a document that a node delivered.
func answerOf(v fsm.View, node string, document blobs.Hash) (introspection.Answer, bool) {
	rec, ok := v.Record(node)
	if !ok || rec.Delivered.Document != document {
		return introspection.Answer{}, false
	}
	return rec.Delivered.Answer, rec.Delivered.Answer.Status != 0
}

// pack takes the ramdisk's logs out of a document and packs the rest: this early for its
// hash, which takes as long as reading it does.
func (c *caller) pack(o *Options) (err error) {
	c.keeper = o.Live.Now().Logs
	c.logs = takeLogs(c.data, c.machine.BMC, c.keeper != nil)
	c.packed, err = o.Packer.Pack(c.data.JSON())
	c.machine.Document = c.packed.Hash
	return inspector.TooLarge(err)
}

// largeDocument is from where on a document is one of few that are worked on at once:
// read, it takes some ten times its bytes, and a processor for tens of milliseconds.
const largeDocument = 64 << 10

// computing works on a document of so many bytes, on a large one in a place for those, and
// not in its own: where many wait for that, small ones are not kept from theirs.
func computing(ctx context.Context, bytes int, work func() error) error {
	place := admission.Of(ctx)
	if place == nil {
		return work()
	}
	if bytes <= largeDocument {
		place.Read(bytes)
		return work()
	}
	err := place.Document(ctx, work)
	if errors.Is(err, admission.ErrBusy) {
		return inspector.Refuse(http.StatusServiceUnavailable, "Too many large documents are coming in at once; try again")
	}
	return err
}

// identifying identifies a machine, and charges the request with what that computes.
func identifying[T any](ctx context.Context, search identify.Search, work func(identify.Search) T) T {
	search, computed := search.Timed()
	if place := admission.Of(ctx); place != nil {
		defer func() { place.Compute(computed()) }()
	}
	return work(search)
}

// senderOf names the network that a callback came from.
func senderOf(ctx context.Context) string {
	if place := admission.Of(ctx); place != nil && place.Sender().IsValid() {
		return place.Sender().String()
	}
	return introspection.SourceUnknown
}

// caller is a ramdisk whose node is looked for, with what it sent.
type caller struct {
	data    *document.Document
	machine identify.Machine
	bytes   int // of the body
	packed  blobs.Packed
	keeper  inspector.LogKeeper // nil: logs are not wanted
	logs    inspector.RamdiskLogs
}
