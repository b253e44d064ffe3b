package inputrules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// document is what 'nft -j list ruleset' prints: objects of one key each.
type document struct {
	Objects []map[string]json.RawMessage `json:"nftables"`
}

type nftChain struct {
	Family, Table, Name, Type, Hook, Policy string
}

type nftRule struct {
	Family, Table, Chain string
	Handle               int
	Expr                 []map[string]json.RawMessage
}

// ParseNft reads 'nft -j list ruleset'; with -t, which leaves out what sets
// hold, a set may hold anything. Tables that skip names are left out.
func ParseNft(text []byte, skip func(family, table string) bool) ([]Table, error) {
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read the rules of nft: %w", err)
	}
	p := nftParser{tables: make(map[string]*Table), skip: skip}
	for _, object := range doc.Objects {
		if err := p.chain(object["chain"]); err != nil {
			return nil, err
		}
	}
	for _, object := range doc.Objects { // rules may stand before chains that they jump to
		if err := p.rule(object["rule"]); err != nil {
			return nil, err
		}
	}
	out := make([]Table, 0, len(p.order))
	for _, key := range p.order {
		out = append(out, *p.tables[key])
	}
	return out, nil
}

type nftParser struct {
	tables map[string]*Table
	order  []string
	skip   func(family, table string) bool
}

func (p *nftParser) chain(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	var c nftChain
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("read a chain of nft: %w", err)
	}
	if !slices.Contains([]string{"ip", "ip6", "inet"}, c.Family) || p.skip(c.Family, c.Table) {
		return nil
	}
	key := c.Family + " " + c.Table
	t := p.tables[key]
	if t == nil {
		t = &Table{Tool: "nft", Family: c.Family, Name: c.Table, Chains: make(map[string]*Chain)}
		p.tables[key], p.order = t, append(p.order, key)
	}
	t.Chains[c.Name] = &Chain{Drop: c.Policy == "drop"}
	if c.Hook == "input" && c.Type == "filter" {
		t.Hooks = append(t.Hooks, c.Name)
	}
	return nil
}

func (p *nftParser) rule(raw json.RawMessage) error {
	if raw == nil {
		return nil
	}
	var r nftRule
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("read a rule of nft: %w", err)
	}
	t := p.tables[r.Family+" "+r.Table]
	if t == nil || t.Chains[r.Chain] == nil {
		return nil
	}
	c := t.Chains[r.Chain]
	c.Rules = append(c.Rules, r.rules()...)
	return nil
}

// rules are what the expressions of one rule come to: one rule, or several
// where a map has a verdict for each value.
func (r nftRule) rules() []Rule {
	var out []Rule
	var fits []Condition
	var last Rule
	for _, expr := range r.Expr {
		for name, raw := range expr { // of one key
			switch name {
			case "match":
				fits = append(fits, nftMatch(raw))
			case "vmap":
				return append(out, r.verdicts(raw, fits)...)
			case "accept", "drop", "reject", "return", "jump", "goto":
				last.Act, last.Target = nftVerdict(name, raw)
			case "counter", "log", "comment", "mangle", "notrack", "ct helper", "set", "meter":
			case "limit", "quota", "ct count", "xt":
				fits = append(fits, maybe)
				if name == "xt" && strings.Contains(string(raw), `"target"`) {
					last.Act = Anything
				}
			default:
				fits, last.Act = append(fits, maybe), Anything
			}
		}
	}
	last.Fits, last.Text = fits, r.text()
	return append(out, last)
}

// text is how a person finds the rule: what is in its JSON reads badly.
func (r nftRule) text() string {
	if len(r.Expr) == 1 {
		for _, verdict := range []string{"drop", "reject"} {
			if _, ok := r.Expr[0][verdict]; ok {
				return "its rule that ends all, " + verdict
			}
		}
	}
	return fmt.Sprintf("rule %d of 'nft -a list chain %s %s %s'", r.Handle, r.Family, r.Table, r.Chain)
}

func nftVerdict(name string, raw json.RawMessage) (Act, string) {
	switch name {
	case "accept":
		return Accept, ""
	case "drop", "reject":
		return Drop, ""
	case "return":
		return Return, ""
	}
	var to struct{ Target string }
	if err := json.Unmarshal(raw, &to); err != nil {
		return Anything, ""
	}
	if name == "goto" {
		return Goto, to.Target
	}
	return Jump, to.Target
}

// verdicts are a rule for each element of a map; one that is kept elsewhere may
// do anything.
func (r nftRule) verdicts(raw json.RawMessage, fits []Condition) []Rule {
	var m struct {
		Key  json.RawMessage
		Data struct{ Set [][2]json.RawMessage }
	}
	if err := json.Unmarshal(raw, &m); err != nil || m.Data.Set == nil {
		return []Rule{{Fits: append(slices.Clone(fits), maybe), Act: Anything}}
	}
	var out []Rule
	for _, element := range m.Data.Set {
		var verdict map[string]json.RawMessage
		if err := json.Unmarshal(element[1], &verdict); err != nil || len(verdict) != 1 {
			verdict = map[string]json.RawMessage{"?": nil}
		}
		one := Rule{Fits: append(slices.Clone(fits), nftCompare(m.Key, "==", element[0])), Act: Anything, Text: r.text()}
		for name, to := range verdict {
			if slices.Contains([]string{"accept", "drop", "reject", "return", "jump", "goto"}, name) {
				one.Act, one.Target = nftVerdict(name, to)
			}
		}
		out = append(out, one)
	}
	return out
}
