package inspectordb

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
)

// Bounds of rules; nothing behind them could be imported.
const (
	maxRules      = 10_000
	maxRuleParts  = 200_000 // conditions and actions of all rules
	maxPartLength = 1 << 20 // bytes of one's parameters
)

// Rule is a rule as the original's API shows it, with its UUID; of one that cannot be read the body
// says why, as "unreadable", and nothing else.
type Rule struct {
	UUID string
	Body []byte // JSON
}

// part is a condition or an action: its parameters and what it is.
type part map[string]json.RawMessage

// shown is a rule on its way to JSON.
type shown struct {
	UUID        string  `json:"uuid"`
	Description *string `json:"description"`
	Scope       *string `json:"scope"`
	Conditions  []part  `json:"conditions"`
	Actions     []part  `json:"actions"`

	unreadable string // why it cannot be exported; "": it can
}

// unreadableRule is exported in the place of a rule that cannot be.
type unreadableRule struct {
	UUID       string `json:"uuid"`
	Unreadable string `json:"unreadable"`
}

// Rules returns the rules in the order in which they were created. Those of one
// moment, which MySQL's whole seconds make likely, come in the order of their
// actions, which are numbered. A rule that is disabled is left out: the original
// cannot be told to disable one.
func (s *Source) Rules(ctx context.Context) ([]Rule, error) {
	var rules []*shown
	byID := make(map[string]*shown)
	err := s.all(ctx, `SELECT uuid, description, scope FROM rules WHERE CASE WHEN disabled THEN 1 ELSE 0 END = 0
		ORDER BY created_at, (SELECT MIN(id) FROM rule_actions WHERE rule_actions.rule = rules.uuid), uuid`, nil,
		func(scan func(...any) error) error {
			r := &shown{Conditions: []part{}, Actions: []part{}}
			if err := scan(&r.UUID, &r.Description, &r.Scope); err != nil {
				return err
			}
			rules, byID[r.UUID] = append(rules, r), r
			if len(rules) > maxRules {
				return fmt.Errorf("there are more than %d", maxRules)
			}
			return nil
		})
	if err == nil {
		err = s.parts(ctx, byID, "a condition", `SELECT rule, params, op, multiple, field,
			CASE WHEN invert THEN 1 ELSE 0 END FROM rule_conditions ORDER BY id`, 4, func(r *shown, c part, v []sql.NullString) {
			c.text("op", v[0])
			c.text("multiple", v[1])
			c.text("field", v[2])
			c["invert"] = strconv.AppendBool(nil, v[3].String == "1")
			r.Conditions = append(r.Conditions, c)
		})
	}
	if err == nil {
		err = s.parts(ctx, byID, "an action", "SELECT rule, params, action FROM rule_actions ORDER BY id", 1,
			func(r *shown, a part, v []sql.NullString) {
				a.text("action", v[0])
				r.Actions = append(r.Actions, a)
			})
	}
	if err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	return encoded(rules)
}

// parts reads the conditions or the actions of rules, and has each added to its rule with the so many columns
// that the query has behind rule and parameters.
func (s *Source) parts(ctx context.Context, rules map[string]*shown, what, query string, columns int,
	add func(*shown, part, []sql.NullString)) error {
	count := 0
	return s.all(ctx, query, nil, func(scan func(...any) error) error {
		values := make([]sql.NullString, 2+columns)
		into := make([]any, len(values))
		for i := range values {
			into[i] = &values[i]
		}
		if err := scan(into...); err != nil {
			return err
		}
		r := rules[values[0].String]
		if count++; r == nil || count > maxRuleParts {
			return tooMany(count)
		}
		p, err := parameters(values[1])
		if err != nil {
			r.unreadable = fmt.Sprintf("%s: %v", what, err)
			return nil
		}
		add(r, p, values[2:])
		return nil
	})
}

// tooMany returns nil for what belongs to a rule that was left out.
func tooMany(parts int) error {
	if parts > maxRuleParts {
		return fmt.Errorf("they have more than %d conditions or actions", maxRuleParts)
	}
	return nil
}

// parameters reads the JSON object of a condition or action.
func parameters(text sql.NullString) (part, error) {
	p := make(part)
	if text.String == "" || text.String == "null" {
		return p, nil
	}
	if len(text.String) > maxPartLength {
		return nil, fmt.Errorf("its parameters have %d bytes, allowed are %d", len(text.String), maxPartLength)
	}
	if err := json.Unmarshal([]byte(text.String), &p); err != nil {
		return nil, fmt.Errorf("its parameters are no JSON object: %w", err)
	}
	return p, nil
}

// text sets a member; none stays none.
func (p part) text(key string, value sql.NullString) {
	if !value.Valid {
		return
	}
	text, err := unescaped(value.String)
	if err != nil {
		text = []byte(`""`) // a string always encodes
	}
	p[key] = bytes.TrimRight(text, "\n")
}

// unescaped writes a value as a line of JSON without escapes for HTML.
func unescaped(value any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return out.Bytes(), err
}

func encoded(rules []*shown) ([]Rule, error) {
	out := make([]Rule, 0, len(rules))
	for _, r := range rules {
		var shown any = r
		if r.unreadable != "" {
			shown = unreadableRule{r.UUID, r.unreadable}
		}
		body, err := unescaped(shown)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.UUID, err)
		}
		out = append(out, Rule{UUID: r.UUID, Body: body})
	}
	return out, nil
}
