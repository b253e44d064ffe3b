package hardware

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of a file of expectations.
const (
	maxExpectations = 256
	maxWanted       = 64 // rows of one expectation
)

// Expectation is what a group of machines was ordered with.
type Expectation struct {
	Name  string   `yaml:"name" json:"name"`
	Nodes []string `yaml:"nodes" json:"nodes"` // UUIDs, names, or patterns of names such as compute-*
	Parts []Wanted `yaml:"parts" json:"parts"`
}

// Wanted is one row of an expectation: parts of a kind, how many, and what is told
// of each.
type Wanted struct {
	Kind string `yaml:"kind" json:"kind"`
	// Number is how many: a number, or a comparison such as ">= 2"; "" is 1.
	Number string `yaml:"number" json:"number,omitempty"`
	// Facts are patterns, numbers with a unit, or comparisons, by the names that
	// Part.Facts has: {model: "MZ7*", size: "480 GB"}. All must hold.
	Facts map[string]string `yaml:",inline" json:"facts,omitempty"`
}

// ReadExpectations reads a file of them: a list in YAML. An error names the line or
// the row.
func ReadExpectations(file []byte) ([]Expectation, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(file))
	decoder.KnownFields(true)
	var list []Expectation
	if err := decoder.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the expectations: %w", err)
	}
	if len(list) > maxExpectations {
		return nil, fmt.Errorf("read the expectations: %d are more than %d", len(list), maxExpectations)
	}
	names := make(map[string]bool, len(list))
	for i, e := range list {
		if names[e.Name] {
			return nil, fmt.Errorf("expectation %q: there are two of this name", e.Name)
		}
		names[e.Name] = true
		if err := e.validate(); err != nil {
			return nil, fmt.Errorf("expectation %d (%q): %w", i+1, e.Name, err)
		}
	}
	return list, nil
}

func (e Expectation) validate() error {
	switch {
	case e.Name == "" || len(e.Name) > maxText:
		return fmt.Errorf("name: 1 to %d bytes", maxText)
	case len(e.Nodes) == 0:
		return errors.New("nodes: name at least one node, or a pattern such as compute-*")
	case len(e.Parts) == 0 || len(e.Parts) > maxWanted:
		return fmt.Errorf("parts: %d rows; there must be 1 to %d", len(e.Parts), maxWanted)
	}
	for _, pattern := range e.Nodes {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("nodes: %q: %w", pattern, err)
		}
	}
	for i, w := range e.Parts {
		if err := w.validate(); err != nil {
			return fmt.Errorf("parts, row %d: %w", i+1, err)
		}
	}
	return nil
}

func (w Wanted) validate() error {
	i := slices.IndexFunc(kinds[:], func(k kind) bool { return k.name == w.Kind })
	if i < 0 {
		var names []string
		for _, k := range kinds {
			names = append(names, k.name)
		}
		return fmt.Errorf("kind: %q is none of %s", w.Kind, strings.Join(names, ", "))
	}
	if _, err := number(w.number()); err != nil {
		return fmt.Errorf("number: %w", err)
	}
	for name, wanted := range w.Facts {
		if !slices.Contains(kinds[i].facts, name) {
			return fmt.Errorf("%s: a %s has no such fact; it has %s", name, w.Kind, strings.Join(kinds[i].facts, ", "))
		}
		if _, err := condition(wanted); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (w Wanted) number() string {
	if w.Number == "" {
		return "1"
	}
	return w.Number
}

// For reports whether the expectation is one of a node, by UUID or name.
func (e Expectation) For(uuid, name string) bool {
	return slices.ContainsFunc(e.Nodes, func(pattern string) bool {
		named, _ := path.Match(pattern, name) // validate has tried it
		return pattern == uuid || name != "" && named
	})
}

// Judge tells how a machine differs from what was ordered, a sentence a row; none
// if it does not. A kind that its document does not tell is a difference: it may be
// that a collector is not enabled.
func (e Expectation) Judge(m Machine) []string {
	var differences []string
	for _, w := range e.Parts {
		if difference := w.judge(m); difference != "" {
			differences = append(differences, difference)
		}
	}
	return differences
}

func (w Wanted) judge(m Machine) string {
	found := 0
	for _, p := range m.Kind(w.Kind) {
		if w.holds(p) {
			found++
		}
	}
	enough, err := number(w.number())
	switch {
	case err != nil:
		return fmt.Sprintf("%s: %v", w, err)
	case !m.told[w.Kind]:
		return fmt.Sprintf("expected %s, the ramdisk did not tell any", w)
	case !enough(float64(found)):
		return fmt.Sprintf("expected %s, found %d", w, found)
	default:
		return ""
	}
}

func (w Wanted) holds(p Part) bool {
	for name, wanted := range w.Facts {
		if holds, err := condition(wanted); err != nil || !holds(p.Facts[name]) {
			return false
		}
	}
	return true
}

// String says what is wanted: "2 x disk (size 480 GB)".
func (w Wanted) String() string {
	text := w.number() + " x " + w.Kind
	var facts []string
	for _, name := range slices.Sorted(maps.Keys(w.Facts)) {
		facts = append(facts, name+" "+w.Facts[name])
	}
	if len(facts) > 0 {
		text += " (" + strings.Join(facts, ", ") + ")"
	}
	return text
}
