package accept

import (
	"context"
	"net/http"
	"slices"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
)

// Page is one page of the list of introspections, newest first.
type Page struct {
	Limit  int                       // greater than 0
	Marker string                    // UUID of the record before the page; "": from the newest
	States []introspection.NodeState // only these; none: all
}

// Status returns the introspection of a node, known by UUID or name.
func (s *Service) Status(ctx context.Context, ref string, r inspector.Reading) (introspection.Record, error) {
	node, v, err := s.Locate(ctx, ref, r)
	if err != nil {
		return introspection.Record{}, err
	}
	rec, ok := v.Record(node)
	if !ok {
		return introspection.Record{}, notInCache(ref)
	}
	return rec, nil
}

// Locate returns the UUID of a node, known by UUID or name, and the state to answer from.
func (s *Service) Locate(ctx context.Context, ref string, r inspector.Reading) (node string, v fsm.View, err error) {
	if node, err = s.resolve(ctx, ref); err != nil {
		return "", fsm.View{}, err
	}
	v, err = s.State(ctx, r)
	return node, v, err
}

// State returns the state to answer from.
func (s *Service) State(ctx context.Context, r inspector.Reading) (fsm.View, error) {
	return inspector.ReadView(ctx, s.o.Log, r)
}

// Current waits until this peer's state has all that was committed before the call.
func (s *Service) Current(ctx context.Context) error {
	_, err := inspector.ReadView(ctx, s.o.Log, inspector.Linearizable)
	return err
}

// List returns one page.
func (s *Service) List(ctx context.Context, p Page, r inspector.Reading) ([]introspection.Record, error) {
	v, err := inspector.ReadView(ctx, s.o.Log, r)
	if err != nil {
		return nil, err
	}
	records := v.Records()
	if p.Marker != "" {
		marker, ok := v.Record(p.Marker)
		if !ok {
			return nil, inspector.Refuse(http.StatusNotFound, "Node not found for marker: %s", p.Marker)
		}
		records = v.RecordsAfter(marker)
	}
	out := []introspection.Record{}
	for rec := range records {
		if len(out) == p.Limit {
			break
		}
		if len(p.States) == 0 || slices.Contains(p.States, rec.State) {
			out = append(out, rec)
		}
	}
	return out, nil
}

// Data returns a node's document as JSON: as it was processed, or as the
// ramdisk sent it.
func (s *Service) Data(ctx context.Context, ref string, processed bool, r inspector.Reading) ([]byte, error) {
	node, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	if !s.o.Live.Config().StoreData {
		return nil, errDataNotStored
	}
	v, err := inspector.ReadView(ctx, s.o.Log, r)
	if err != nil {
		return nil, err
	}
	rec, _ := v.Record(node)
	if r, ok := v.TakenRelayOf(node); ok && !processed && (rec.Unprocessed.IsZero() || r.Sequence > rec.Begun) {
		return inspector.Load(s.o.Packer, v, r.Document) // Ironic's, and newer than ours
	}
	if !processed && rec.Unprocessed.IsZero() || processed && rec.Processed.IsZero() {
		return nil, noData(node, processed)
	}
	if !processed {
		return inspector.Original(s.o.Packer, v, rec)
	}
	data, err := inspector.Processed(s.o.Packer, v, rec)
	if err != nil {
		return nil, err
	}
	return data.JSON(), nil
}

// errDataNotStored is the original's answer while store_data is off.
var errDataNotStored = inspector.Refuse(http.StatusNotFound,
	"Inspector is not configured to store data. Set the [processing]store_data configuration option to change this.")

// noData says that a node's data is not, or no longer, or not yet stored.
func noData(node string, processed bool) error {
	return inspector.Refuse(http.StatusNotFound, "Introspection data not found for node %s, processed=%s", node,
		map[bool]string{true: "True", false: "False"}[processed]) // as Python writes them
}
