package inspector

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// What the contract says above and in the lines of a callback's failures.
const (
	failuresHead = "The following failures happened during running pre-processing hooks:\n"
	lookUpLine   = "Look up error: "
)

// Continue takes a ramdisk's callback: it commits the document and the request
// to process it, waits until a worker somewhere has done that, and returns the
// node's UUID or the contract's refusal. A byte-identical repeat, on any peer,
// joins the first delivery and gets its answer (promise 5).
func (s *Service) Continue(ctx context.Context, body []byte) (node string, err error) {
	var c caller
	var packed blobs.Packed
	var logs RamdiskLogs
	var keeper LogKeeper
	err = computing(ctx, len(body), func() error {
		data, err := document.Receive(body)
		if err != nil {
			return refuse(http.StatusBadRequest, "%v", err)
		}
		keeper = s.o.Live.Now().Logs
		logs = takeLogs(data, keeper != nil)
		if packed, err = s.o.Packer.Pack(data.JSON()); err != nil { // this early for its hash, which takes as long as reading it does
			return tooLarge(err)
		}
		c = caller{data, MachineOf(data), packed.Hash, len(body)}
		return nil
	})
	var request fencing.Token
	if err == nil {
		node, request, err = s.deliver(ctx, c, packed) // waits for the log, Ironic and a worker
	}
	if err == nil {
		err = s.delivered(ctx, node, request, packed.Hash)
	}
	s.logs.keep(ctx, keeper, node, logs, err)
	if err != nil {
		return "", err
	}
	return node, nil
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
	err := place.Aside(ctx, func() error { return place.Within(ctx, admission.Document, work) })
	if errors.Is(err, admission.ErrBusy) {
		return refuse(http.StatusServiceUnavailable, "Too many large documents are coming in at once; try again")
	}
	return err
}

// deliver commits a callback for the node that it belongs to, or finds the
// earlier delivery that it repeats.
func (s *Service) deliver(ctx context.Context, c caller, document blobs.Packed) (node string, request fencing.Token, err error) {
	for range findTries {
		var v fsm.View
		if v, err = view(ctx, s.o.Log, Linearizable); err != nil {
			return "", 0, err
		}
		active, lookUp := LookUp(v, c.machine)
		if lookUp == nil && s.finder.another(ctx, v, active, c.machine) {
			c.machine.Other, lookUp = active, &unknownError{c.machine.Attributes}
		}
		if first, ok := firstDelivery(v, document.Hash, active, lookUp); ok && s.finder.sameMachine(ctx, v, first, c.machine.Attributes) {
			return first.Node, first.Delivered.Request, nil
		}
		if node, err = s.finder.find(ctx, v, c, active, lookUp); err == nil {
			var queued introspection.Queued
			queued, err = s.accept(ctx, Callback{Node: node, Packed: document, Data: c.data.Clone()})
			request = queued.Request
		}
		if !errors.Is(err, errStale) {
			return node, request, err
		}
	}
	return "", 0, refuse(http.StatusServiceUnavailable, "The introspection of node %s changes all the time; repeat the callback", node)
}

// firstDelivery returns the record whose callback a document repeats. active and
// lookUp are the result of LookUp for the document's attributes.
//
// The look-up among active introspections decides first: a machine that was
// enrolled again under another UUID may send the same bytes as before, and they
// belong to the introspection that waits for them. Only where no active node
// matches is the document compared with those of ended introspections; of these
// the newest delivery counts. Where several active nodes match, only one that
// has this very document already can be meant.
func firstDelivery(v fsm.View, document blobs.Hash, active string, lookUp error) (first introspection.Record, ok bool) {
	var unknown *unknownError
	for _, node := range v.NodesByDelivery(document) {
		rec, _ := v.Record(node)
		candidate := errors.As(lookUp, &unknown) || lookUp == nil && node == active || lookUp != nil && rec.State.Active()
		if candidate && rec.Delivered.Request > first.Delivered.Request {
			first, ok = rec, true
		}
	}
	return first, ok
}

// ownerLimit is how long Ironic may take to say whether it has a node still.
const ownerLimit = 3 * time.Second

// sameMachine reports whether a document that repeats the delivery of an ended
// introspection still comes from that node. Where the node was deleted and the
// machine enrolled again, the answer of the former node would hide what became
// of the present one. An Ironic that does not say changes nothing: then it is a
// repeat.
func (f *finder) sameMachine(ctx context.Context, v fsm.View, first introspection.Record, a introspection.Attributes) bool {
	if first.State.Active() {
		return true
	}
	if owner := portOwner(v, a.MACs); owner != "" && owner != first.Node {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, ownerLimit)
	defer cancel()
	_, err := f.o.Ironic.Node(ctx, first.Node)
	return !errors.Is(err, ErrNoNode)
}

// another reports whether a machine that was found to be a node under introspection
// is another one: something speaks against it, and Ironic, too, knows more of its MACs
// as another node's, or the node by another serial number. An Ironic that does not say
// changes nothing.
func (f *finder) another(ctx context.Context, v fsm.View, node string, m Machine) bool {
	rec, _ := v.Record(node)
	if !doubtful(m, rec.Attributes) {
		return false
	}
	if outnumbered(v, node, m.MACs) {
		return true
	}
	if m.Serial == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, ownerLimit)
	defer cancel()
	known, err := f.o.Ironic.Node(ctx, node)
	serial := known.serial()
	return err == nil && serial != "" && serial != m.Serial
}

// outnumbered reports whether another node has more ports than this one among MACs.
func outnumbered(v fsm.View, node string, macs []string) bool {
	ports, most := make(map[string]int), 0
	for _, mac := range macs {
		for _, owner := range v.NodesByPort(mac) {
			ports[owner]++
			most = max(most, ports[owner])
		}
	}
	return most > ports[node]
}

// takeLimit is how long a callback that a worker examines may be on its way into
// the log; then it is queued all the same.
const takeLimit = 5 * time.Second

// accept brings a callback into the log: begun by a worker of this peer, or in
// the queue.
func (s *Service) accept(ctx context.Context, c Callback) (queued introspection.Queued, err error) {
	if s.o.Taker != nil {
		taking, cancel := context.WithTimeout(ctx, takeLimit)
		defer cancel()
		if queued, ok := s.o.Taker.Take(taking, c); ok {
			return queued, nil
		}
	}
	res, err := s.o.Do.Do(ctx, "", introspection.Enqueue{Node: c.Node, Event: introspection.EventProcess, Document: c.Packed})
	if err != nil {
		return queued, err
	}
	switch res.Code {
	case fsm.OK:
		return queued, res.Decode(&queued)
	case fsm.NotFound: // deleted since it was looked up
		return queued, refuse(http.StatusBadRequest, failuresHead+lookUpLine+"%s", res.Message)
	default:
		return queued, illegal(res.Err())
	}
}

// tooLarge makes an answer of a document that does not fit into the log.
func tooLarge(err error) error {
	var refused *fsm.Error
	if errors.As(err, &refused) && refused.Code == fsm.Invalid {
		return refuse(http.StatusRequestEntityTooLarge, "%s", refused.Message)
	}
	return err
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
		return refuse(http.StatusServiceUnavailable, "The callback of node %s was accepted and is not processed yet; repeat it", node)
	}
	if answer, known := answerOf(v, node, document); known {
		if answer.Status == http.StatusOK {
			return nil
		}
		return &Refusal{Status: answer.Status, Message: answer.Message}
	}
	return overtaken(v, node)
}

// answerOf finds the answer to a document that a node delivered.
func answerOf(v fsm.View, node string, document blobs.Hash) (introspection.Answer, bool) {
	rec, ok := v.Record(node)
	if !ok || rec.Delivered.Document != document {
		return introspection.Answer{}, false
	}
	return rec.Delivered.Answer, rec.Delivered.Answer.Status != 0
}

// overtaken answers a callback that was consumed without effect: another one ended
// the introspection first, or it was started again.
func overtaken(v fsm.View, node string) error {
	rec, ok := v.Record(node)
	switch {
	case !ok:
		return refuse(http.StatusBadRequest, failuresHead+lookUpLine+"Could not find node %s in cache", node)
	case rec.State == introspection.NodeError:
		return refuse(http.StatusBadRequest, "Node processing already finished with error: %s", rec.Error)
	case rec.State == introspection.NodeAborting:
		return refuse(http.StatusBadRequest, "Node processing already finished with error: Canceled by operator")
	case rec.State == introspection.NodeFinished:
		return refuse(http.StatusBadRequest, "Node processing already finished with error: None")
	default:
		return refuse(http.StatusBadRequest, "The introspection of node %s was started again meanwhile", node)
	}
}
