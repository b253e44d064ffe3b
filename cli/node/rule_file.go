package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/trivet-ha/trivet/config"
)

const (
	maxRuleFile = 16 << 20 // bytes
	maxRules    = 1000     // of one file
)

// parseRules reads a file of one rule or a list of them, JSON or YAML, into
// values that encode to JSON. What is in a rule is the server's to judge.
func parseRules(text []byte) ([]any, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // numbers keep all their digits
	one := d.Decode(&v) == nil
	if _, err := d.Token(); !one || !errors.Is(err, io.EOF) { // not one value of JSON
		if v, err = parseYAML(text); err != nil {
			return nil, err
		}
	}
	rules, ok := v.([]any)
	if !ok {
		rules = []any{v}
	}
	if len(rules) > maxRules {
		return nil, fmt.Errorf("%d rules: at most %d at once", len(rules), maxRules)
	}
	for i, rule := range rules {
		if _, ok := rule.(map[string]any); !ok {
			return nil, fmt.Errorf("rule %d is no object", i+1)
		}
		if _, err := json.Marshal(rule); err != nil {
			return nil, fmt.Errorf("rule %d cannot be written as JSON: %w", i+1, err)
		}
	}
	return rules, nil
}

// parseYAML reads one document. What YAML would make another value of than stands there is refused.
func parseYAML(text []byte) (v any, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var document, more yaml.Node
	switch err := d.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, fmt.Errorf("neither JSON nor YAML: %w", err)
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one YAML document: write one list of rules")
	}
	config.DatesAsText(&document)
	if err := sameInJSON(&document); err != nil {
		return nil, err
	}
	return v, document.Decode(&v)
}

// sameInJSON refuses the first node that is another value in JSON, or none.
func sameInJSON(node *yaml.Node) error {
	wrong := func(what string) error { return fmt.Errorf("line %d: %.80q is %s", node.Line, node.Value, what) }
	switch tag := node.ShortTag(); {
	case node.Kind == yaml.DocumentNode, node.Kind == yaml.AliasNode:
	case tag == "!!int", tag == "!!float":
		if !json.Valid([]byte(node.Value)) {
			return wrong("no number in JSON: write its digits, or put it in quotes if it is text")
		}
		if tag == "!!float" && !strings.ContainsAny(node.Value, ".eE") {
			return wrong("a number of more digits than YAML keeps: put it in quotes if it is text, or write the rules in JSON")
		}
	case !slices.Contains([]string{"!!str", "!!bool", "!!null", "!!map", "!!seq", "!!merge"}, tag):
		return wrong("of type " + tag + ", which JSON does not have: write it as text")
	}
	for i, below := range node.Content {
		if err := sameInJSON(below); err != nil {
			return err
		}
		if tag := below.ShortTag(); node.Kind == yaml.MappingNode && i%2 == 0 && tag != "!!str" && tag != "!!merge" {
			return fmt.Errorf("line %d: the key %.80q is not text: put it in quotes", below.Line, below.Value)
		}
	}
	return nil
}
