package accept

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// Reapply has a node's data processed again, in the background: the document in
// body, which takes the place of the stored one, or with an empty body or an
// empty object the stored one. The request waits in the queue like a callback.
func (s *Service) Reapply(ctx context.Context, ref string, body []byte) error {
	document, err := s.replacement(body)
	if err != nil {
		return err
	}
	node, err := s.resolve(ctx, ref)
	if err != nil {
		return err
	}
	if document.IsZero() {
		if !s.o.Live.Config().StoreData {
			return inspector.Refuse(http.StatusBadRequest,
				"Inspector is not configured to store introspection data. Set the [processing]store_data configuration option to change this.")
		}
		v, err := inspector.ReadView(ctx, s.o.Log, inspector.Linearizable)
		if err != nil {
			return err
		}
		if rec, _ := v.Record(node); rec.Unprocessed.IsZero() {
			return noData(node, false)
		}
	}
	if err := admits(s.o.Log, introspection.EventReapply); err != nil {
		return err
	}
	_, err = inspector.Commit(ctx, s.o.Do, introspection.Enqueue{Node: node, Event: introspection.EventReapply,
		Document: document, Timeout: s.o.Live.Config().Timeout})
	switch {
	case errors.Is(err, fsm.NotFound):
		return notInCache(node)
	case errors.Is(err, fsm.Conflict):
		return inspector.Refuse(http.StatusConflict, "Node locked, please, try again later")
	}
	return illegal(err)
}

// replacement packs the document of a body, zero if there is none.
func (s *Service) replacement(body []byte) (packed blobs.Packed, err error) {
	if len(body) == 0 {
		return packed, nil
	}
	data, err := document.Receive(body)
	if _, not := errors.AsType[*document.NotJSON](err); not {
		return packed, inspector.Refuse(http.StatusBadRequest, "Invalid data: expected a JSON object, got None")
	}
	if err != nil {
		return packed, inspector.Refuse(http.StatusBadRequest, "%v", err)
	}
	data.Delete(document.Logs)
	text := data.JSON()
	if bytes.Equal(text, []byte("{}")) {
		return packed, nil
	}
	packed, err = s.o.Packer.Pack(text)
	return packed, inspector.TooLarge(err)
}
