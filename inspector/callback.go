package inspector

import (
	"context"
	"errors"
	"net/http"

	"github.com/trivet-ha/trivet/fencing"
	"github.com/trivet-ha/trivet/fsm"
)

// What the contract says above and in the lines of a callback's failures.
const (
	failuresHead = "The following failures happened during running pre-processing hooks:\n"
	lookUpLine   = "Look up error: "
)

// keyLogs holds the ramdisk's own logs: base64 of a compressed archive.
const keyLogs = "logs"

// Continue takes a ramdisk's callback: it commits the document and the request
// to process it, waits until a worker somewhere has done that, and returns the
// node's UUID or the contract's refusal. A byte-identical repeat, on any peer,
// joins the first delivery and gets its answer (promise 5).
func (s *Service) Continue(ctx context.Context, body []byte) (node string, err error) {
	data, err := ParseDocument(body)
	if err != nil {
		return "", refuse(http.StatusBadRequest, "%v", err)
	}
	data.Delete(keyLogs) // never stored with the data (contract §5)
	document, err := data.JSON()
	if err != nil {
		return "", err
	}
	packed, err := s.o.Packer.Pack(document) // this early for its hash, which takes as long as reading it does
	if err != nil {
		return "", s.tooLarge(err)
	}
	// Hooks do not run here: a document that kills its worker must be counted,
	// or a ramdisk that repeats it would kill one peer after the other.
	v, err := view(ctx, s.o.Log, Linearizable)
	if err != nil {
		return "", err
	}
	if nodes := v.NodesByDelivery(packed.Hash); len(nodes) > 0 {
		rec, _ := v.Record(nodes[0])
		return rec.Node, s.delivered(ctx, rec.Node, rec.Delivered.Request, packed.Hash)
	}
	node, err = LookUp(v, AttributesOf(data))
	if err != nil {
		return "", refuse(http.StatusBadRequest, failuresHead+lookUpLine+"%v", err)
	}
	queued, err := s.enqueueCallback(ctx, node, packed)
	if err != nil {
		return "", err
	}
	return node, s.delivered(ctx, node, queued.Request, packed.Hash)
}

func (s *Service) enqueueCallback(ctx context.Context, node string, document fsm.Packed) (queued fsm.Queued, err error) {
	res, err := s.o.Do.Do(ctx, "", fsm.Enqueue{Node: node, Event: fsm.EventProcess, Document: document})
	if err != nil {
		return queued, err
	}
	switch res.Code {
	case fsm.OK:
		return queued, res.Decode(&queued)
	case fsm.NotFound: // deleted since it was looked up
		return queued, refuse(http.StatusBadRequest, failuresHead+lookUpLine+"%s", res.Message)
	default:
		return queued, s.illegal(res.Err())
	}
}

// tooLarge makes an answer of a document that does not fit into the log.
func (s *Service) tooLarge(err error) error {
	var refused *fsm.Error
	if errors.As(err, &refused) && refused.Code == fsm.Invalid {
		return refuse(http.StatusRequestEntityTooLarge, "%s", refused.Message)
	}
	return err
}

// delivered waits for the end of a callback and returns what it was answered.
func (s *Service) delivered(ctx context.Context, node string, request fencing.Token, document fsm.Hash) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	v, err := s.o.Bell.Wait(ctx, func(v fsm.View) bool {
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
func answerOf(v fsm.View, node string, document fsm.Hash) (fsm.Answer, bool) {
	rec, ok := v.Record(node)
	if !ok || rec.Delivered.Document != document {
		return fsm.Answer{}, false
	}
	return rec.Delivered.Answer, rec.Delivered.Answer.Status != 0
}

// overtaken answers a callback that was consumed without effect: another one
// ended the introspection first, or it was started anew.
func overtaken(v fsm.View, node string) error {
	rec, ok := v.Record(node)
	switch {
	case !ok:
		return refuse(http.StatusBadRequest, failuresHead+lookUpLine+"Could not find node %s in cache", node)
	case rec.State == fsm.NodeError:
		return refuse(http.StatusBadRequest, "Node processing already finished with error: %s", rec.Error)
	case rec.State == fsm.NodeAborting:
		return refuse(http.StatusBadRequest, "Node processing already finished with error: Canceled by operator")
	case rec.State == fsm.NodeFinished:
		return refuse(http.StatusBadRequest, "Node processing already finished with error: None")
	default:
		return refuse(http.StatusBadRequest, "The introspection of node %s was started anew meanwhile", node)
	}
}
