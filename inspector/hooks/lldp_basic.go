package hooks

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/lldp"
)

// lldpBasic notes in the document what switches say about the machine's links.
type lldpBasic struct{}

var _ inspector.After = lldpBasic{}

// Name implements inspector.Hook.
func (lldpBasic) Name() string { return "lldp_basic" }

// After implements inspector.After. It sets lldp_processed of every interface in
// all_interfaces whose switch told something.
func (lldpBasic) After(_ context.Context, t *inspector.Task) error {
	processed := make(map[string]*lldp.Facts)
	err := eachHeard(t, func(l link, facts *lldp.Facts) error {
		if !facts.Empty() {
			processed[l.name] = facts
		}
		return nil
	})
	if err != nil || len(processed) == 0 {
		return err
	}
	known, err := knownInterfaces(t.Data)
	if err != nil {
		return err
	}
	if err := noteFacts(t.Data, known, processed); err != nil {
		return err
	}
	// The interfaces that validate_interfaces chose get them, too: to the original those are the very
	// objects of all_interfaces; here they are the ones that were equal before.
	const where = "interfaces"
	v := t.Data.Value(where)
	if v.Kind() != document.Dict {
		return nil
	}
	chosen, err := objectOf(where, v)
	if err != nil {
		return err
	}
	same := make(map[string]*lldp.Facts)
	for name, v := range chosen.members.All() {
		if facts, told := processed[name]; told && bytes.Equal(v.Raw(), known.members.Get(name).Raw()) {
			same[name] = facts
		}
	}
	if len(same) == 0 {
		return nil
	}
	return noteFacts(t.Data, chosen, same)
}

// noteFacts writes the facts into the interfaces of an object of the document.
func noteFacts(d *document.Document, in object, facts map[string]*lldp.Facts) error {
	all := &document.Parts{Names: in.members.Names, Values: slices.Clone(in.members.Values)}
	for i, name := range all.Names {
		said, told := facts[name]
		if !told {
			continue
		}
		nic, err := objectOf(in.where+"."+clipped(name), all.Values[i])
		if err != nil {
			return err
		}
		text, err := said.MarshalJSON()
		if err != nil {
			return fmt.Errorf("%s: %w", nic.where, err)
		}
		all.Values[i] = nic.with("lldp_processed", text).value
	}
	return d.Set(in.where, all.JSON())
}
