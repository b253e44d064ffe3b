package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxProblems bounds the problems that are reported of one file: an operator mends no
// more at a time, and each unknown key is compared with every known one.
const maxProblems = 100

// fileReader walks the YAML of one file. It works on nodes rather than on
// decoded values, because only nodes know their line, and reads no deeper than
// the table has names, so that no file can make it work long.
type fileReader struct {
	name     string
	settings []setting
	problems Problems
	empty    string // the option that was read last, if nothing stands behind it
}

// fileSettings reads a file. Bytes that are not YAML give one problem, since
// nothing after the first mistake can be trusted.
func fileSettings(name string, text []byte, problems *Problems) []setting {
	if name == "" {
		return nil
	}
	root, found := Document(name, text)
	r := &fileReader{name: name, problems: found}
	if root != nil {
		r.section("", root)
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return a.Where.Line - b.Where.Line })
	*problems = append(*problems, r.problems...)
	return r.settings
}

// Document parses a file that holds one YAML document, for callers that walk its
// nodes, which know their lines. The root is nil if the file is empty, or
// holds nothing but comments, or cannot be parsed; what there is of a file with
// problems may still be walked, to tell all of them.
func Document(name string, text []byte) (root *yaml.Node, problems Problems) {
	wrong := func(line int, f *fault) Problems {
		return Problems{f.at(Origin{Kind: FromFile, Name: name, Line: line}, "")}
	}
	if len(text) > MaxFile {
		return nil, wrong(0, &fault{fmt.Sprintf("the file has %d bytes", len(text)), fmt.Sprintf("at most %d", MaxFile)})
	}
	if line, f := unreadable(text); f != nil {
		return nil, wrong(line, f)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, wrong(syntaxFault(err, text))
	}
	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, wrong(syntaxFault(err, text))
	default:
		problems = wrong(second.Line, &fault{"the file holds more than one document", "remove what follows the line ---"})
	}
	if len(document.Content) == 1 {
		root = document.Content[0]
	}
	return root, problems
}

// DatesAsText makes text, as it was written, of the dates below a node, for callers that decode it into values
// of any type: a date would be a moment then, which JSON writes in another way.
func DatesAsText(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!timestamp" {
		node.Tag = "!!str"
	}
	for _, below := range node.Content {
		DatesAsText(below)
	}
}

// section reads a mapping; path is "" for the file itself.
func (r *fileReader) section(path string, node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return // "api:" with all its keys commented out
	}
	if node.Kind != yaml.MappingNode {
		f := &fault{"is a section", "write KEY: VALUE lines below it"}
		if path == "" {
			f = &fault{"the file is not a mapping", "write KEY: VALUE lines"}
		}
		r.problem(node.Line, path, f)
		return
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(node.Content) && len(r.problems) < maxProblems; i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		if name.Kind != yaml.ScalarNode {
			r.problem(name.Line, path, &fault{"a key must be a word", "write KEY: VALUE"})
			continue
		}
		key, shown := join(path, name.Value), join(path, Printable(name.Value))
		_, known := Lookup(key)
		first, twice := lines[key]
		if !twice {
			lines[key] = name.Line
		}
		switch {
		case r.empty != "" && !known && !isSection(key): // perhaps the value, without its indentation
			r.problem(name.Line, path,
				&fault{"what follows " + r.empty + " is not an option", "if it is the value, write it on the same line, in quotes"})
			continue
		case twice:
			r.problem(name.Line, shown, &fault{fmt.Sprintf("is written twice, first on line %d", first), "remove one"})
		case strings.Contains(name.Value, "."): // would pass for a path
			r.problem(name.Line, shown,
				&fault{"is not an option",
					"a file has sections: write each word on a line of its own, indented below the one before"})
		default:
			r.entry(key, shown, name.Line, value)
		}
		switch {
		case isSection(key):
		case known && value.Kind == yaml.ScalarNode && value.Value == "":
			r.empty = key
		default:
			r.empty = ""
		}
	}
}

// Printable returns the name of a key as it may be shown. A secret can pass for
// one, as in {password:SECRET}, where the blank behind the colon is missing: what
// is not of the letters of which names are made is hidden.
func Printable(name string) string {
	const mergeKey = "<<"
	if name != mergeKey && (name == "" || len(name) > 100 || strings.Trim(name, alphanumeric+"._-/") != "") {
		return "(a key that is not shown)"
	}
	return name
}

// entry reads one line of a section; shown is the key as messages may have it.
func (r *fileReader) entry(key, shown string, line int, value *yaml.Node) {
	o, known := Lookup(key)
	switch {
	case value.Kind == yaml.AliasNode:
		r.problem(value.Line, shown, &fault{"is an alias", "write the value out"})
	case isSection(key) && key != "":
		r.section(key, value)
	case known:
		parsed, f := o.parseNode(value)
		if f != nil {
			r.problem(value.Line, key, f)
			return
		}
		r.settings = append(r.settings, setting{Key: key, Value: parsed, Origin: r.at(line)})
	default:
		r.problem(line, shown, unknownKey(key))
	}
}

// parseNode reads the value of an option from YAML.
func (o Option) parseNode(node *yaml.Node) (any, *fault) {
	target := o.field(new(Config))
	if _, several := target.(*[]string); several {
		if node.Kind != yaml.SequenceNode {
			return nil, &fault{"is not a list", "write [a, b], or one item a line, each after a dash"}
		}
		list := make([]string, 0, min(len(node.Content), maxList+1))
		for _, item := range node.Content[:min(len(node.Content), maxList+1)] { // the rule refuses one that has more
			if item.Kind != yaml.ScalarNode || item.Tag != "!!str" {
				return nil, &fault{fmt.Sprintf("the item on line %d is not text", item.Line), "write a list of names"}
			}
			list = append(list, item.Value)
		}
		return list, o.rule.checkValue(list)
	}
	switch {
	case node.Kind == yaml.MappingNode, node.Kind == yaml.SequenceNode:
		return nil, &fault{"wants one value (" + o.Type() + ")", "write it on the same line"}
	case node.Tag == "!!null":
		return nil, &fault{"has no value", "write one, or remove the line for the default"}
	}
	text := node.Tag == "!!str"
	switch target.(type) {
	case *string, *Secret:
		if !text {
			return nil, &fault{"is read as a number, a date or a truth value, not as text", "put it in quotes"}
		}
	case *bool, *int:
		if text && node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			return nil, &fault{"is text, wants " + o.Type(), "write it without quotes"}
		}
	}
	return o.parse(node.Value)
}

// unknownKey looks for what may have been meant: a key of the same section, or
// the same name in another one.
func unknownKey(key string) *fault {
	if key == "haconfig.kubeconfig" { // of one cluster, which had no name
		return &fault{"is not an option: each cluster has a name",
			"write haconfig.kubeconfigs: [NAME=PATH], with a name of your own"}
	}
	f := &fault{what: "is not an option"}
	section, name := split(key)
	var keys, names, elsewhere []string
	for _, o := range table {
		keys = append(keys, o.Key)
		if s, n := split(o.Key); s == section {
			names = append(names, n)
		} else if n == name {
			elsewhere = append(elsewhere, o.Key)
		}
	}
	for _, s := range Sections() {
		if parent, n := split(s.Name); parent == section && s.Name != "" {
			names = append(names, n)
		}
	}
	near := Nearest(name, names)
	switch {
	case near != "":
		f.do = fmt.Sprintf("did you mean %s?", join(section, near))
	case len(elsewhere) > 0:
		f.do = fmt.Sprintf("did you mean %s?", strings.Join(elsewhere, " or "))
	case Nearest(key, keys) != "":
		f.do = fmt.Sprintf("did you mean %s?", Nearest(key, keys))
	default:
		f.do = "remove it"
	}
	return f
}

func (r *fileReader) at(line int) Origin { return Origin{Kind: FromFile, Name: r.name, Line: line} }

func (r *fileReader) problem(line int, key string, f *fault) {
	r.problems = append(r.problems, f.at(r.at(line), key))
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
