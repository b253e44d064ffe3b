package rules

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// Bounds of one rule.
const (
	maxScope      = 255 // characters, as in the original
	maxConditions = 100
	maxActions    = 100
)

// Definition is a rule as it is stored: checked, with all that the contract
// shows of it.
type Definition struct {
	// UUID is as the client gave it, "" if the service shall mint one.
	UUID string
	// Body is a JSON object with actions, conditions, description and scope, in
	// this order.
	Body []byte
}

// Parse checks the body of a request that creates a rule. Errors are
// *inspector.Refusal with the contract's texts.
func Parse(body []byte) (Definition, error) {
	given, err := document.Parse(body)
	if err != nil {
		return Definition{}, refuse(err)
	}
	part := func(key, usual string) *document.Value {
		if v := given.Value(key); v != nil {
			return document.Bounded(v.Raw())
		}
		return document.Checked([]byte(usual))
	}
	id := part("uuid", "null")
	if _, err := uuid.Parse(id.Text()); err != nil && !id.Empty() { // nothing at all is a UUID that is not given
		return Definition{}, refuse(invalidf("Invalid UUID value"))
	}
	r := definition{description: part("description", "null"), scope: part("scope", "null"),
		conditions: part("conditions", "[]"), actions: part("actions", "[]")}
	// a database's column of text takes a number, too
	if k := r.description.Kind(); k == document.Int || k == document.Float {
		r.description = document.OfText(string(r.description.Raw()))
	}
	if _, err := r.compile(); err != nil {
		return Definition{}, refuse(err)
	}
	stored, err := r.body()
	return Definition{UUID: id.Text(), Body: stored}, err
}

func refuse(err error) error {
	return &inspector.Refusal{Status: http.StatusBadRequest, Message: err.Error()}
}

// definition is a rule's parts as values.
type definition struct{ description, scope, conditions, actions *document.Value }

// body writes a checked rule as it is stored, with what each condition has by default.
func (d definition) body() ([]byte, error) {
	list, err := d.conditions.Split()
	if err != nil {
		return nil, err
	}
	conditions := document.NewCollection(document.List)
	for _, c := range list.Values {
		inside, err := c.Split()
		if err != nil {
			return nil, err
		}
		for name, usual := range map[string]string{"invert": "false", "multiple": `"any"`} {
			if inside.Get(name) == nil {
				inside = inside.With(name, []byte(usual))
			}
		}
		conditions.Add("", inside.JSON())
	}
	whole := document.NewCollection(document.Dict)
	whole.Add("actions", d.actions.Raw())
	whole.Add("conditions", conditions.JSON())
	whole.Add("description", d.description.Raw())
	whole.Add("scope", d.scope.Raw())
	return document.Checked(whole.JSON()).Canonical()
}

// rule is a rule ready to be used.
type rule struct {
	name       string // for the log
	scope      string // "": every node
	conditions []condition
	ofNode     bool // one of them is about the node
	actions    []action
	unusable   error // why this version does not take it; the scope is true even so
}

// condition is one condition of a rule.
type condition struct {
	field    field
	missing  bool // a field that is not there is null
	check    check
	invert   bool
	multiple string // any, all or first
}

// load makes a stored rule ready. With an error it returns what could be read
// before, the scope first of all.
func load(body []byte) (rule, error) {
	stored, err := document.Parse(body)
	if err != nil {
		return rule{}, err
	}
	d := definition{}
	for key, part := range map[string]**document.Value{
		"description": &d.description, "scope": &d.scope, "conditions": &d.conditions, "actions": &d.actions,
	} {
		if *part = stored.Value(key); *part == nil {
			return rule{}, fmt.Errorf("it has no %s", key)
		}
	}
	return d.compile()
}

// compile checks a rule and makes it ready. Errors are the contract's texts. The
// name and scope are read first.
func (d definition) compile() (r rule, err error) {
	if r.name, err = textOrNull("description", d.description); err != nil {
		return r, err
	}
	if r.scope, err = textOrNull("scope", d.scope); err != nil {
		return r, err
	}
	if utf8.RuneCountInString(r.scope) > maxScope {
		return r, invalidf("Invalid scope: the length of the scope should be within %d characters", maxScope)
	}
	if r.conditions, err = compileConditions(d.conditions); err != nil {
		return r, err
	}
	r.ofNode = slices.ContainsFunc(r.conditions, func(c condition) bool { return c.field.ofNode })
	r.actions, err = compileActions(d.actions)
	return r, err
}

func textOrNull(key string, v *document.Value) (string, error) {
	switch v.Kind() {
	case document.None:
		return "", nil
	case document.Text:
		return v.Text(), nil
	}
	return "", invalidf("Invalid %s: expected text, got %v", key, v.Kind())
}

// params are what a condition or an action has besides what all have.
type params map[string]*document.Value

// paramsOf collects the parameters of one item of a list that was validated.
func paramsOf(item *document.Value, reserved ...string) (params, error) {
	inside, err := item.Split()
	if err != nil {
		return nil, err
	}
	p := make(params)
	for name, v := range inside.All() {
		if slices.Contains(reserved, name) {
			continue
		}
		p[name] = v
		if err := v.Settle(); err != nil {
			return nil, fmt.Errorf("parameter %s: %w", document.Clip(name), err)
		}
	}
	return p, nil
}

// check finds parameters that are missing or unknown; one that is null is not
// there.
func (p params) check(required, optional []string, lax bool) error {
	var missing, unexpected, said []string
	for _, name := range required {
		if v := p[name]; v == nil || v.Kind() == document.None {
			missing = append(missing, name)
		}
	}
	for name, v := range p {
		if v.Kind() != document.None && !lax && !slices.Contains(required, name) && !slices.Contains(optional, name) {
			unexpected = append(unexpected, name)
		}
	}
	slices.Sort(unexpected)
	if len(missing) > 0 {
		said = append(said, "missing required parameter(s): "+strings.Join(missing, ", "))
	}
	if len(unexpected) > 0 {
		said = append(said, "unexpected parameter(s): "+document.Clip(strings.Join(unexpected, ", ")))
	}
	if len(said) > 0 {
		return invalidf("%s", strings.Join(said, "; "))
	}
	return nil
}

func compileConditions(list *document.Value) ([]condition, error) {
	shape := schema{required: []string{"op", "field"}, properties: []property{
		{name: "op", list: namesOf(operators[:], func(o operator) string { return o.name })},
		{name: "field", kind: document.Text},
		{name: "multiple", list: []string{"all", "any", "first"}},
		{name: "invert", kind: document.Bool},
	}}
	items, err := shape.validate("conditions", list, maxConditions)
	if err != nil {
		return nil, err
	}
	var conditions []condition
	room := maxProgram
	for _, item := range items {
		c, err := compileCondition(item, &room)
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, c)
	}
	return conditions, nil
}

func compileCondition(item *document.Value, room *int) (c condition, err error) {
	p, err := paramsOf(item)
	if err != nil {
		return c, err
	}
	if c.field, err = parseField(p["field"].Text()); err != nil {
		return c, err
	}
	name := p["op"].Text()
	at := slices.IndexFunc(operators[:], func(o operator) bool { return o.name == name })
	op := operators[at] // the shape lists the names
	c.missing, c.multiple = op.missing, "any"
	if given := p["multiple"]; given != nil {
		c.multiple = given.Text()
	}
	if given := p["invert"]; given != nil {
		c.invert = !given.Empty()
	}
	for _, reserved := range [...]string{"op", "field", "multiple", "invert"} {
		delete(p, reserved)
	}
	required := []string{"value"}
	if op.missing {
		required = nil
	}
	if err = p.check(required, nil, op.lax); err == nil {
		c.check, err = op.prepare(p["value"], room)
	}
	if err != nil {
		return c, invalidf("Invalid parameters for operator %s: %w", name, err)
	}
	return c, nil
}

// holds decides about the values of the condition's field.
func (c condition) holds(ctx context.Context, r *run) (bool, error) {
	values, err := r.find(ctx, c.field)
	if err != nil {
		return false, err
	}
	if len(values) == 0 {
		if !c.missing {
			return false, nil // even if inverted
		}
		values = []*document.Value{document.Checked([]byte("null"))}
	}
	result := false
	for _, v := range values {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if result, err = c.check(v); err != nil {
			return false, err
		}
		result = result != c.invert
		if c.multiple == "first" || result == (c.multiple == "any") {
			break
		}
	}
	return result, nil
}
