package accept

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/hardware"
)

// Hardware knows what machines are made of, what they were ordered with and where they
// are plugged in. Its methods may be called concurrently.
type Hardware struct{ service *Service }

// Hardware returns what knows the machines of a service.
func (s *Service) Hardware() Hardware { return Hardware{s} }

// Comparison is what changed between the last two inspections of a node.
type Comparison struct {
	// Compared is false if only one document of the node is stored.
	Compared bool
	Changes  []hardware.Change
}

// Changes compares what a node's ramdisk sent at its last inspection with what it
// sent at the one before, whether Ironic did these or Trivet.
func (h Hardware) Changes(ctx context.Context, ref string, r inspector.Reading) (Comparison, error) {
	newest, earlier, err := h.sent(ctx, ref, r)
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
func (h Hardware) Cabling(ctx context.Context, ref string, r inspector.Reading) ([]hardware.Cable, error) {
	newest, _, err := h.sent(ctx, ref, r)
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
func (h Hardware) sent(ctx context.Context, ref string, r inspector.Reading) (newest, earlier []byte, err error) {
	node, err := h.service.resolve(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	if !h.service.o.Live.Config().StoreData {
		return nil, nil, errDataNotStored
	}
	v, err := inspector.ReadView(ctx, h.service.o.Log, r)
	if err != nil {
		return nil, nil, err
	}
	all := v.Sent(node)
	if len(all) == 0 {
		return nil, nil, noData(node, false)
	}
	var documents [2][]byte
	for i, sent := range all[:min(len(all), len(documents))] {
		if documents[i], err = inspector.Load(h.service.o.Packer, v, sent.Document); err != nil {
			return nil, nil, fmt.Errorf("read a document of node %s: %w", node, err)
		}
	}
	return documents[0], documents[1], nil
}

// Expectations returns what machines were ordered with, in the order of the names.
func (h Hardware) Expectations(ctx context.Context, r inspector.Reading) ([]expectations.Expectation, error) {
	v, err := inspector.ReadView(ctx, h.service.o.Log, r)
	if err != nil {
		return nil, err
	}
	return slices.Collect(v.Expectations()), nil
}

// PutExpectation writes an expectation that was checked, in the place of one of its name.
// The leader judges the machines of both.
func (h Hardware) PutExpectation(ctx context.Context, e hardware.Expectation) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("expectation %s: %w", e.Name, err)
	}
	command := expectations.Put{Name: e.Name, Body: body}
	if err := command.Validate(); err != nil {
		return inspector.Refuse(http.StatusBadRequest, "%v", err)
	}
	_, err = inspector.Commit(ctx, h.service.o.Do, command)
	return err
}

// DeleteExpectation removes an expectation.
func (h Hardware) DeleteExpectation(ctx context.Context, name string) error {
	command, err := expectations.Delete{Name: name}, error(fsm.NotFound)
	if command.Validate() == nil {
		_, err = inspector.Commit(ctx, h.service.o.Do, command)
	}
	if errors.Is(err, fsm.NotFound) {
		return inspector.Refuse(http.StatusNotFound, "Expectation %s was not found", name)
	}
	return err
}

// Verdict returns how a node's machine was judged. One that was not judged yet has no
// Document.
func (h Hardware) Verdict(ctx context.Context, ref string, r inspector.Reading) (expectations.Verdict, error) {
	node, v, err := h.service.Locate(ctx, ref, r)
	if err != nil {
		return expectations.Verdict{}, err
	}
	verdict, _ := v.Verdict(node)
	verdict.Node = node
	return verdict, nil
}

// Unexpected lists the machines that are not as ordered, in the order of their nodes,
// after a page's marker.
func (h Hardware) Unexpected(ctx context.Context, p Page, r inspector.Reading) ([]expectations.Verdict, error) {
	v, err := inspector.ReadView(ctx, h.service.o.Log, r)
	if err != nil {
		return nil, err
	}
	var list []expectations.Verdict
	for verdict := range v.UnexpectedAfter(p.Marker) {
		if len(list) == p.Limit {
			break
		}
		list = append(list, verdict)
	}
	return list, nil
}
