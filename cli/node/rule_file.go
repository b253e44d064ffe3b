package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

const (
	maxRuleFile = 16 << 20 // bytes
	maxRules    = 1000     // of one file
)

// parseRules reads a file of one rule or a list of them, JSON or YAML, into
// values that encode to JSON. What is in a rule is the server's to judge.
func parseRules(text []byte) ([]any, error) {
	v, err := parseJSON(text)
	if err != nil {
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

// parseJSON reads one value; numbers keep all their digits.
func parseJSON(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value of JSON")
	}
	return v, nil
}

// parseYAML reads one document.
func parseYAML(text []byte) (v any, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	switch err := d.Decode(&v); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, fmt.Errorf("neither JSON nor YAML: %w", err)
	}
	var more any
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one YAML document: write one list of rules")
	}
	return v, nil
}
