package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/lldp"
)

// lldpBasic notes in the document what switches say about the machine's links.
type lldpBasic struct{}

var _ inspector.After = lldpBasic{}

func newLLDPBasic(config.Inspection) (inspector.Hook, error) { return lldpBasic{}, nil }

// Name implements inspector.Hook.
func (lldpBasic) Name() string { return "lldp_basic" }

// After implements inspector.After. It sets lldp_processed of every interface in
// all_interfaces whose switch told something.
func (lldpBasic) After(_ context.Context, t *inspector.Task) error {
	links, err := linksOf(t.Data)
	if err != nil {
		return err
	}
	known, err := knownInterfaces(t.Data)
	if err != nil {
		return err
	}
	processed := make(map[string]*lldp.Facts)
	for _, l := range links {
		if l.said == nil {
			t.Log.Debug("no LLDP data for interface", "interface", clipped(l.name))
			continue
		}
		facts, err := l.facts(t)
		if err != nil {
			return err
		}
		if !facts.Empty() {
			processed[l.name] = facts
		}
	}
	if len(processed) == 0 {
		return nil
	}
	if err := noteFacts(t.Data, known, processed); err != nil {
		return err
	}
	return noteChosen(t.Data, known, processed)
}

// noteFacts writes the facts into the interfaces of an object of the document.
func noteFacts(d *inspector.Document, in object, facts map[string]*lldp.Facts) (err error) {
	all := slices.Clone(in.members)
	for i, m := range all {
		if said, told := facts[m.Name]; told {
			if all[i].Value, err = withFacts(in.where+"."+clipped(m.Name), m.Value, said); err != nil {
				return err
			}
		}
	}
	text, err := objectText(all)
	if err != nil {
		return fmt.Errorf("%s: %w", in.where, err)
	}
	return d.Set(in.where, text)
}

// noteChosen writes them into interfaces too, the chosen ones. To the original
// those of validate_interfaces are the very objects of all_interfaces; here they
// are the ones that were equal before.
func noteChosen(d *inspector.Document, all object, facts map[string]*lldp.Facts) error {
	const where = "interfaces"
	raw := d.Raw(where)
	if kindOf(raw) != "an object" {
		return nil
	}
	members, err := d.Members(where)
	chosen, err := split(where, raw, members, err)
	if err != nil {
		return err
	}
	same := make(map[string]*lldp.Facts)
	for _, m := range chosen.members {
		if said, told := facts[m.Name]; told && bytes.Equal(m.Value, all.members.Get(m.Name)) {
			same[m.Name] = said
		}
	}
	if len(same) == 0 {
		return nil
	}
	return noteFacts(d, chosen, same)
}

// withFacts returns an interface with what its switch told.
func withFacts(where string, raw json.RawMessage, facts *lldp.Facts) (json.RawMessage, error) {
	o, err := objectOf(where, raw)
	if err != nil {
		return nil, err
	}
	text, err := facts.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	o, err = o.with("lldp_processed", text)
	return o.raw, err
}

// objectText writes an object in its order.
func objectText(members inspector.Object) (json.RawMessage, error) {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(m.Name)
		if err != nil {
			return nil, fmt.Errorf("name %q: %w", m.Name, err)
		}
		out = append(append(append(out, name...), ':'), m.Value...)
	}
	return append(out, '}'), nil
}
