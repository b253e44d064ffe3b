package accept

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/hardware"
	"github.com/trivet-ha/trivet/internal/redact"
)

// DryRun carries changes of rules and expectations out on a copy of the state: the code and
// the rules that judge real changes judge these, and nothing is committed. It belongs to one
// request.
type DryRun struct {
	before, after fsm.View
	service       *Service
	minted        map[string]bool // UUIDs that a real run would draw again
}

// NewDryRun begins with a state.
func NewDryRun(v fsm.View) *DryRun {
	d := &DryRun{before: v, after: v, minted: make(map[string]bool)}
	d.service = &Service{o: &Options{Do: d}} // what changes rules and expectations uses nothing else
	return d
}

// DryRun begins with the state of now.
func (s *Service) DryRun(ctx context.Context) (*DryRun, error) {
	v, err := inspector.ReadView(ctx, s.o.Log, inspector.Linearizable)
	if err != nil {
		return nil, err
	}
	return NewDryRun(v), nil
}

// Do implements inspector.Doer: the command is the next entry of the copy.
func (d *DryRun) Do(_ context.Context, _ string, c fsm.Command) (fsm.Result, error) {
	after, res, err := fsm.Would(d.after, c, 0) // no event of it is shown, and so no time
	if err != nil {
		return res, err
	}
	d.after = after
	return res, nil
}

// CreateRule is Service.CreateRule.
func (d *DryRun) CreateRule(ctx context.Context, id string, body []byte) error {
	if id == "" {
		id = uuid.NewString()
		d.minted[id] = true
	}
	_, err := d.service.CreateRule(ctx, id, body)
	return err
}

// PutExpectation is Hardware.PutExpectation.
func (d *DryRun) PutExpectation(ctx context.Context, e hardware.Expectation) error {
	return Hardware{d.service}.PutExpectation(ctx, e)
}

// DeleteExpectation is Hardware.DeleteExpectation.
func (d *DryRun) DeleteExpectation(ctx context.Context, name string) error {
	return Hardware{d.service}.DeleteExpectation(ctx, name)
}

// Differences returns the rules and expectations that differ, before the changes and after
// them, for a person to compare. Values that look like secrets are hidden.
func (d *DryRun) Differences() (before, after string, err error) {
	was, is := newListing(d.before, d.minted), newListing(d.after, d.minted)
	if before, err = was.without(is); err != nil {
		return "", "", err
	}
	after, err = is.without(was)
	return before, after, err
}

// listing is the rules and expectations of a state.
type listing struct {
	titles []string // in their order
	bodies map[string][]byte
}

func newListing(v fsm.View, minted map[string]bool) listing {
	l := listing{bodies: make(map[string][]byte)}
	add := func(title string, body []byte) {
		l.titles = append(l.titles, title)
		l.bodies[title] = body
	}
	fresh := 0
	for rule := range v.Rules() {
		title := "rule " + rule.UUID
		if minted[rule.UUID] {
			fresh++
			title = fmt.Sprintf("rule (new %d)", fresh)
		}
		add(title, rule.Body)
	}
	for e := range v.Expectations() {
		add("expectation "+e.Name, e.Body)
	}
	return l
}

// without prints what another listing does not have the same.
func (l listing) without(other listing) (string, error) {
	var out strings.Builder
	hidden := redact.New()
	for _, title := range l.titles {
		body := l.bodies[title]
		if same, there := other.bodies[title]; there && bytes.Equal(same, body) {
			continue
		}
		text, err := withoutSecrets(body)
		if err != nil {
			return "", fmt.Errorf("show %s: %w", title, err)
		}
		fmt.Fprintf(&out, "%s: %s\n", title, hidden.Text(text))
	}
	return out.String(), nil
}

// withoutSecrets indents a body, with the values hidden that a rule gives attributes which
// are secrets.
func withoutSecrets(body []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // no digit is lost
	var v any
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	hide(v)
	text, err := json.MarshalIndent(v, "", "  ")
	return string(text), err
}

func hide(v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			hide(one)
		}
	case map[string]any:
		place := fmt.Sprint(v["path"], v["field"], v["name"])
		if _, has := v["value"]; has && redact.NamesSecret(place) {
			v["value"] = redact.Redacted
		}
		for _, one := range v { // order-free: each on its own
			hide(one)
		}
	}
}
