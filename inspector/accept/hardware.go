package accept

import (
	"context"
	"errors"
	"fmt"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/hardware"
)

// Comparison is what changed between the last two inspections of a node.
type Comparison struct {
	// Compared is false if only one document of the node is stored.
	Compared bool
	Changes  []hardware.Change
}

// Changes compares what a node's ramdisk sent at its last inspection with what it
// sent at the one before, whether Ironic did these or Trivet.
func (s *Service) Changes(ctx context.Context, ref string, r inspector.Reading) (Comparison, error) {
	newest, earlier, err := s.sent(ctx, ref, r)
	if err != nil || earlier == nil {
		return Comparison{}, err
	}
	is, err := hardware.Of(newest)
	was, earlierErr := hardware.Of(earlier)
	if err := errors.Join(err, earlierErr); err != nil {
		return Comparison{}, fmt.Errorf("compare the documents of node %s: %w", ref, err)
	}
	return Comparison{Compared: true, Changes: hardware.Compare(was, is)}, nil
}

// Cabling tells where a node's interfaces were plugged in at its last inspection.
func (s *Service) Cabling(ctx context.Context, ref string, r inspector.Reading) ([]hardware.Cable, error) {
	newest, _, err := s.sent(ctx, ref, r)
	if err != nil {
		return nil, err
	}
	cables, err := hardware.Cabling(newest)
	if err != nil {
		return nil, fmt.Errorf("read the cabling of node %s: %w", ref, err)
	}
	return cables, nil
}

// sent returns what a node's ramdisk sent last, and at the inspection before; nil
// if that is not stored.
func (s *Service) sent(ctx context.Context, ref string, r inspector.Reading) (newest, earlier []byte, err error) {
	node, err := s.resolve(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	if !s.o.Live.Config().StoreData {
		return nil, nil, errDataNotStored
	}
	v, err := inspector.ReadView(ctx, s.o.Log, r)
	if err != nil {
		return nil, nil, err
	}
	hashes := sentBy(v, node)
	if len(hashes) == 0 {
		return nil, nil, noData(node, false)
	}
	var documents [2][]byte
	for i, hash := range hashes[:min(len(hashes), len(documents))] {
		if documents[i], err = inspector.Load(s.o.Packer, v, hash); err != nil {
			return nil, nil, fmt.Errorf("read a document of node %s: %w", node, err)
		}
	}
	return documents[0], documents[1], nil
}

// sentBy lists the documents of a node's inspections, the newest first: those that
// were handed on to Ironic before and after the node's own record began.
func sentBy(v fsm.View, node string) []blobs.Hash {
	rec, _ := v.Record(node)
	var before, after []blobs.Hash
	for relay := range v.RelaysOf(node) {
		switch {
		case relay.State == relays.Failed: // Ironic did not wait for it
		case relay.Sequence < rec.Begun:
			before = append([]blobs.Hash{relay.Document}, before...)
		default:
			after = append([]blobs.Hash{relay.Document}, after...)
		}
	}
	return append(append(after, own(rec)...), before...)
}

func own(rec introspection.Record) (hashes []blobs.Hash) {
	for _, hash := range [...]blobs.Hash{rec.Unprocessed, rec.Earlier} {
		if !hash.IsZero() {
			hashes = append(hashes, hash)
		}
	}
	return hashes
}
