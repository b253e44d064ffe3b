package hardware

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"
)

// Bounds of a file of expectations, and of one.
const (
	maxExpectations = 256
	maxNodes        = 256 // UUIDs and patterns of one expectation
	maxWanted       = 64  // rows of one expectation
)

// Expectation is what a group of machines was ordered with. Its machines are those of
// Nodes that have a part for each row of Where.
type Expectation struct {
	Name  string   `yaml:"name" json:"name"`
	Nodes []string `yaml:"nodes" json:"nodes,omitempty"` // UUIDs, names, or patterns of names such as compute-*; none: all
	Where []Wanted `yaml:"where" json:"where,omitempty"`
	Parts []Wanted `yaml:"parts" json:"parts"`
}

// Wanted is one row of an expectation: parts of a kind, how many, and what is told
// of each.
type Wanted struct {
	Kind string `yaml:"kind"`
	// Number is how many: a number, or a comparison such as ">= 2"; "" is 1, and in
	// Where at least 1.
	Number string `yaml:"number"`
	// Facts are patterns, numbers with a unit, or comparisons, by the names that
	// Part.Facts has: {model: "MZ7*", size: "480 GB"}. All must hold.
	Facts map[string]string `yaml:",inline"`
}

// MarshalJSON writes a row as files have it.
func (w Wanted) MarshalJSON() ([]byte, error) {
	row := map[string]string{"kind": w.Kind}
	if w.Number != "" {
		row["number"] = w.Number
	}
	maps.Copy(row, w.Facts)
	return json.Marshal(row)
}

// ReadExpectations reads a file of them: a list in YAML or JSON. An error names the line.
func ReadExpectations(file []byte) ([]Expectation, error) {
	var list []Expectation
	lines, err := decodeStrictly(file, &list)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || len(list) > maxExpectations {
		return nil, fmt.Errorf("read the expectations: the list has %d, allowed are 1 to %d", len(list), maxExpectations)
	}
	names := make(map[string]bool, len(list))
	for i, e := range list {
		at := lines.Content[i]
		if names[e.Name] {
			return nil, fmt.Errorf("line %d: expectation %q: there are two of this name", at.Line, e.Name)
		}
		names[e.Name] = true
		if err := e.validate(at); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// ReadExpectation reads one of them.
func ReadExpectation(text []byte) (e Expectation, err error) {
	lines, err := decodeStrictly(text, &e)
	if err != nil {
		return e, err
	}
	return e, e.validate(lines)
}

// decodeStrictly decodes one document of YAML without unknown fields, and returns its
// nodes, which know their lines.
func decodeStrictly(text []byte, into any) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	var root yaml.Node
	err := errors.Join(decoder.Decode(into), yaml.Unmarshal(text, &root))
	switch {
	case errors.Is(err, io.EOF) || err == nil && len(root.Content) == 0:
		return nil, errors.New("read the expectations: there are none")
	case err != nil:
		return nil, fmt.Errorf("read the expectations: %w", err)
	case !errors.Is(decoder.Decode(new(yaml.Node)), io.EOF):
		return nil, errors.New("read the expectations: a second document follows after ---; write one list")
	}
	return root.Content[0], nil
}

// lineOf returns the line of a row in a list of a mapping.
func lineOf(mapping *yaml.Node, list string, row int) int {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		rows := mapping.Content[i+1]
		if mapping.Content[i].Value == list && row < len(rows.Content) {
			return rows.Content[row].Line
		}
	}
	return mapping.Line
}

func (e Expectation) validate(at *yaml.Node) error {
	refuse := func(line int, format string, args ...any) error {
		return fmt.Errorf("line %d: expectation %q: %w", line, e.Name, fmt.Errorf(format, args...))
	}
	switch {
	case e.Name == "" || len(e.Name) > maxText:
		return refuse(at.Line, "name: 1 to %d bytes", maxText)
	case len(e.Nodes)+len(e.Where) == 0:
		return refuse(at.Line, "nodes: name at least one node, or a pattern such as compute-*, or machines in where")
	case len(e.Nodes) > maxNodes:
		return refuse(at.Line, "nodes: %d; there may be %d", len(e.Nodes), maxNodes)
	case len(e.Parts) == 0 || len(e.Parts) > maxWanted:
		return refuse(at.Line, "parts: %d rows; there must be 1 to %d", len(e.Parts), maxWanted)
	case len(e.Where) > maxWanted:
		return refuse(at.Line, "where: %d rows; there may be %d", len(e.Where), maxWanted)
	}
	for i, pattern := range e.Nodes {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return refuse(lineOf(at, "nodes", i), "nodes: %q: %w", pattern, path.ErrBadPattern)
		}
	}
	for i, w := range slices.Concat(e.Where, e.Parts) {
		list := "where"
		if i >= len(e.Where) {
			list, i = "parts", i-len(e.Where)
		}
		if err := w.validate(); err != nil {
			return refuse(lineOf(at, list, i), "%s, row %d: %w", list, i+1, err)
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
	for _, name := range slices.Sorted(maps.Keys(w.Facts)) {
		if !slices.Contains(kinds[i].facts, name) {
			return fmt.Errorf("%s: a %s has no such fact; it has %s", name, w.Kind, strings.Join(kinds[i].facts, ", "))
		}
		if _, err := condition(w.Facts[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (w Wanted) number() string { return cmp.Or(w.Number, "1") }

// ByName reports whether the expectation has names or patterns of names, rather than
// UUIDs alone: the judge must know what Ironic calls the node.
func (e Expectation) ByName() bool {
	return slices.ContainsFunc(e.Nodes, func(pattern string) bool { return uuid.Validate(pattern) != nil })
}

// For reports whether the expectation may be one of a node, by UUID or name.
func (e Expectation) For(uuid, name string) bool {
	return len(e.Nodes) == 0 || slices.ContainsFunc(e.Nodes, func(pattern string) bool {
		named, _ := path.Match(pattern, name) // validate has tried it
		return strings.EqualFold(pattern, uuid) || name != "" && named
	})
}

// Of reports whether a machine of such a node is one of the group.
func (e Expectation) Of(m Machine) bool {
	return !slices.ContainsFunc(e.Where, func(w Wanted) bool {
		w.Number = cmp.Or(w.Number, ">= 1")
		return w.judgeMachine(m) != ""
	})
}

// Judge tells how a machine differs from what was ordered, a sentence a row; none
// if it does not. A kind that its document does not tell is a difference: it may be
// that a collector is not enabled.
func (e Expectation) Judge(m Machine) []string {
	var differences []string
	for _, w := range e.Parts {
		if difference := w.judgeMachine(m); difference != "" {
			differences = append(differences, difference)
		}
	}
	return differences
}

func (w Wanted) judgeMachine(m Machine) string {
	found := 0
	enough, err := number(w.number())
	holds, wrong := w.conditions()
	for _, p := range m.Kind(w.Kind) {
		if holds(p) {
			found++
		}
	}
	switch err = errors.Join(err, wrong); {
	case err != nil:
		return fmt.Sprintf("%s: %v", w, err)
	case m.crowded[w.Kind]:
		return fmt.Sprintf("expected %s, the ramdisk told more than %d of the kind, which are not counted", w, maxParts)
	case !m.told[w.Kind]:
		return fmt.Sprintf("expected %s, the ramdisk did not tell any", w)
	case !enough(float64(found)):
		return fmt.Sprintf("expected %s, found %d", w, found)
	default:
		return ""
	}
}

// conditions makes the test of a part from the conditions of its facts.
func (w Wanted) conditions() (func(Part) bool, error) {
	tests := make(map[string]func(string) bool, len(w.Facts))
	for name, wanted := range w.Facts { // order-free: into a map
		holds, err := condition(wanted)
		if err != nil {
			return func(Part) bool { return false }, err
		}
		tests[name] = holds
	}
	return func(p Part) bool {
		for name, holds := range tests { // order-free: all must hold
			if !holds(p.Facts[name]) {
				return false
			}
		}
		return true
	}, nil
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

// quantity is a comparison, a number and a unit, of which the number alone is
// needed: ">= 3.8 TB", "480GB", "64".
var quantity = regexp.MustCompile(`^(>=|<=|>|<)? *([0-9]+(?:\.[0-9]+)?) *([KMGTP]i?B|B)?$`)

// tolerance is how much a size with a unit may differ and be the same: makers and
// kernels round 480 GB to 480.1 GB and 447 GiB.
const tolerance = 0.01

// condition makes of what a person writes the test of a fact: a comparison or a
// number with a unit compares numbers, all else is a pattern, in which * stands for
// any text. true and false are what the facts call yes and no.
func condition(wanted string) (func(fact string) bool, error) {
	m := quantity.FindStringSubmatch(wanted)
	if m != nil && (m[1] != "" || m[3] != "") {
		holds, err := number(wanted)
		if err != nil {
			return nil, err
		}
		return func(fact string) bool {
			told, err := strconv.ParseFloat(fact, 64)
			return err == nil && holds(told)
		}, nil
	}
	switch strings.ToLower(wanted) {
	case "true":
		wanted = "yes"
	case "false":
		wanted = "no"
	case "":
		return nil, errors.New("an empty text; write a value, or a pattern such as *")
	}
	if _, err := path.Match(flat(wanted), ""); err != nil {
		return nil, fmt.Errorf("%q: %w", wanted, err)
	}
	return func(fact string) bool {
		matches, _ := path.Match(flat(wanted), flat(fact)) // tried above
		return matches && fact != ""
	}, nil
}

// flat makes * match slashes, which names of ports have, and takes case away.
func flat(text string) string { return strings.ToLower(strings.ReplaceAll(text, "/", "\x00")) }

// number makes the test of a number of what a person writes.
func number(wanted string) (func(float64) bool, error) {
	m := quantity.FindStringSubmatch(wanted)
	if m == nil {
		return nil, fmt.Errorf("%q is no number; write 2, >= 2 or 480 GB", wanted)
	}
	limit, err := strconv.ParseFloat(m[2], 64)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", wanted, err)
	}
	limit *= unit(m[3])
	slack := 0.0
	if m[3] != "" {
		slack = limit * tolerance
	}
	switch m[1] {
	case ">=":
		return func(n float64) bool { return n >= limit-slack }, nil
	case "<=":
		return func(n float64) bool { return n <= limit+slack }, nil
	case ">":
		return func(n float64) bool { return n > limit+slack }, nil
	case "<":
		return func(n float64) bool { return n < limit-slack }, nil
	default:
		return func(n float64) bool { return math.Abs(n-limit) <= slack }, nil
	}
}

// unit is how many bytes a unit has: KB is 1,000, KiB 1,024.
func unit(name string) float64 {
	if name == "" || name == "B" {
		return 1
	}
	base := 1000.0
	if strings.Contains(name, "i") {
		base = 1024
	}
	return math.Pow(base, float64(1+strings.IndexByte("KMGTP", name[0])))
}
