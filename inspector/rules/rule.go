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
	document, err := inspector.ParseDocument(body)
	if err != nil {
		return Definition{}, refuse(err)
	}
	raw := func(key string) *value {
		if v := document.Raw(key); v != nil {
			return checked(v)
		}
		return checked([]byte("null"))
	}
	id, err := parseUUID(raw("uuid"))
	if err != nil {
		return Definition{}, refuse(err)
	}
	r := definition{description: raw("description"), scope: raw("scope"), conditions: raw("conditions"), actions: raw("actions")}
	if k := r.description.kind(); k == kindInt || k == kindFloat { // a database's column of text takes a number, too
		r.description = checked([]byte(`"` + string(r.description.raw) + `"`))
	}
	for key, list := range map[string]**value{"conditions": &r.conditions, "actions": &r.actions} {
		if document.Raw(key) == nil {
			*list = checked([]byte("[]"))
		}
	}
	if _, err := r.compile(); err != nil {
		return Definition{}, refuse(err)
	}
	stored, err := r.body()
	return Definition{UUID: id, Body: stored}, err
}

func refuse(err error) error {
	return &inspector.Refusal{Status: http.StatusBadRequest, Message: err.Error()}
}

// parseUUID returns a client's UUID as it is spelled; nothing at all is "".
func parseUUID(v *value) (string, error) {
	if given, err := v.isTrue(); err != nil || !given {
		return "", err
	}
	if v.kind() == kindText {
		if _, err := uuid.Parse(v.text()); err == nil {
			return v.text(), nil
		}
	}
	return "", invalidf("Invalid UUID value")
}

// definition is a rule's parts as values.
type definition struct{ description, scope, conditions, actions *value }

// body writes a checked rule as it is stored.
func (d definition) body() ([]byte, error) {
	out := []byte(`{"actions":`)
	out, err := appendJSON(out, d.actions)
	if err != nil {
		return nil, err
	}
	out = append(out, `,"conditions":`...)
	if out, err = d.appendConditions(out); err != nil {
		return nil, err
	}
	out = append(out, `,"description":`...)
	if out, err = appendJSON(out, d.description); err != nil {
		return nil, err
	}
	out = append(out, `,"scope":`...)
	if out, err = appendJSON(out, d.scope); err != nil {
		return nil, err
	}
	return append(out, '}'), nil
}

// appendConditions writes the conditions with what each has by default.
func (d definition) appendConditions(out []byte) ([]byte, error) {
	list, err := d.conditions.split()
	if err != nil {
		return nil, err
	}
	out = append(out, '[')
	for i, c := range list.values {
		if i > 0 {
			out = append(out, ',')
		}
		inside, err := c.split()
		if err != nil {
			return nil, err
		}
		whole := &kids{names: slices.Clone(inside.names), values: slices.Clone(inside.values)}
		for name, usual := range map[string]string{"invert": "false", "multiple": `"any"`} {
			if !slices.Contains(whole.names, name) {
				whole.names, whole.values = append(whole.names, name), append(whole.values, checked([]byte(usual)))
			}
		}
		complete := &value{raw: c.raw, is: kindDict, left: c.left, kids: whole} // written in the order of names
		if out, err = appendJSON(out, complete); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
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
	members, err := inspector.Members(body)
	if err != nil {
		return rule{}, err
	}
	d := definition{}
	for key, part := range map[string]**value{
		"description": &d.description, "scope": &d.scope, "conditions": &d.conditions, "actions": &d.actions,
	} {
		raw := members.Get(key)
		if raw == nil {
			return rule{}, fmt.Errorf("it has no %s", key)
		}
		*part = checked(raw)
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

func textOrNull(key string, v *value) (string, error) {
	switch v.kind() {
	case kindNone:
		return "", nil
	case kindText:
		return v.text(), nil
	}
	return "", invalidf("Invalid %s: expected text, got %v", key, v.kind())
}

// params are what a condition or an action has besides what all have.
type params map[string]*value

// paramsOf collects the parameters of one item of a list that was validated.
func paramsOf(item *value, reserved ...string) (params, error) {
	inside, err := item.split()
	if err != nil {
		return nil, err
	}
	p := make(params)
	for i, name := range inside.names {
		if slices.Contains(reserved, name) {
			continue
		}
		p[name] = inside.values[i]
		if err := p[name].settle(); err != nil {
			return nil, fmt.Errorf("parameter %s: %w", clip(name), err)
		}
	}
	return p, nil
}

// check finds parameters that are missing or unknown; one that is null is not
// there.
func (p params) check(required, optional []string, lax bool) error {
	var missing, unexpected, said []string
	for _, name := range required {
		if v := p[name]; v == nil || v.kind() == kindNone {
			missing = append(missing, name)
		}
	}
	for name, v := range p {
		if v.kind() != kindNone && !lax && !slices.Contains(required, name) && !slices.Contains(optional, name) {
			unexpected = append(unexpected, name)
		}
	}
	slices.Sort(unexpected)
	if len(missing) > 0 {
		said = append(said, "missing required parameter(s): "+strings.Join(missing, ", "))
	}
	if len(unexpected) > 0 {
		said = append(said, "unexpected parameter(s): "+clip(strings.Join(unexpected, ", ")))
	}
	if len(said) > 0 {
		return invalidf("%s", strings.Join(said, "; "))
	}
	return nil
}

func compileConditions(list *value) ([]condition, error) {
	items, err := conditionsSchema().validate("conditions", list, maxConditions)
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

func compileCondition(item *value, room *int) (c condition, err error) {
	p, err := paramsOf(item)
	if err != nil {
		return c, err
	}
	if c.field, err = parseField(p["field"].text()); err != nil {
		return c, err
	}
	name := p["op"].text()
	at := slices.IndexFunc(operators[:], func(o operator) bool { return o.name == name })
	op := operators[at] // the shape lists the names
	c.missing, c.multiple = op.missing, "any"
	if given := p["multiple"]; given != nil {
		c.multiple = given.text()
	}
	if given := p["invert"]; given != nil {
		c.invert = given.raw[0] == 't'
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
func (c condition) holds(ctx context.Context, r *run, in *value) (bool, error) {
	values, err := r.find(ctx, c.field, in)
	if err != nil {
		return false, err
	}
	if len(values) == 0 {
		if !c.missing {
			return false, nil // even if inverted
		}
		values = []*value{checked([]byte("null"))}
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
