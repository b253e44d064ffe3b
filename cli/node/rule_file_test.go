package node

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestRulesOfYAML: what a file of rules says reaches the server as it stands there, or not at all.
func TestRulesOfYAML(t *testing.T) {
	for value, want := range map[string]string{
		"2024-01-31":              `"2024-01-31"`,
		"2024-01-31 10:00:00Z":    `"2024-01-31 10:00:00Z"`,
		"'2024-01-31'":            `"2024-01-31"`,
		"[2024-01-31, {a: true}]": `["2024-01-31",{"a":true}]`,
		"{2024-01-31: 1}":         `{"2024-01-31":1}`,
		"52:54:00:12:34:56":       `"52:54:00:12:34:56"`,
		"-12.5":                   `-12.5`,
		"1e3":                     `1000`,
		"18446744073709551615":    `18446744073709551615`,
		"yes":                     `"yes"`,
		"~":                       `null`,
		"'0x10'":                  `"0x10"`,
		"[&a {b: c}, *a]":         `[{"b":"c"},{"b":"c"}]`,
		"{<<: {b: c}, d: e}":      `{"b":"c","d":"e"}`,
	} {
		rules, err := parseRules([]byte("# a rule\n- value: " + value + "\n"))
		got, _ := json.Marshal(rules)
		if err != nil || string(got) != `[{"value":`+want+`}]` {
			t.Errorf("value-of-yaml: %s is %s (%v), want %s", value, got, err, want)
		}
	}
	for value, want := range map[string]string{
		"0x10":                  `line 2: "0x10" is no number in JSON`,
		"0o17":                  "no number in JSON",
		"017":                   "no number in JSON",
		"1_000":                 "no number in JSON",
		".inf":                  "no number in JSON",
		"[a, .nan]":             "no number in JSON",
		"184467440737095516150": "more digits than YAML keeps",
		"!!binary aGk=":         "of type !!binary",
		"!secret a":             "of type !secret",
		"{1: a}":                `line 2: the key "1" is not text`,
		"{true: a}":             "is not text",
		"{[a]: b}":              "is not text",
	} {
		rules, err := parseRules([]byte("# a rule\n- value: " + value + "\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("value-of-yaml: %s is %v (%v), want %s", value, rules, err, want)
		}
	}
}
