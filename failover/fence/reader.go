package fence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/trivet-ha/trivet/config"
)

// maxProblems bounds the problems that are reported of one file.
const maxProblems = 100

// reader walks the YAML of one file by its nodes, because only they know their
// lines.
type reader struct {
	name     string
	o        Options
	problems config.Problems
}

// parse reads the devices of a file. It looks at nothing but the text.
func parse(name string, text []byte, o Options) ([]*spec, config.Problems) {
	root, problems := config.Document(name, text)
	r := &reader{name: name, o: o, problems: problems}
	var specs []*spec
	switch {
	case root == nil && len(problems) == 0:
		r.problem(0, "devices", "the file lists none", "write at least one")
	case root != nil:
		specs = r.file(root)
	}
	slices.SortStableFunc(r.problems, func(a, b config.Problem) int { return a.Where.Line - b.Where.Line })
	return specs, r.problems[:min(len(r.problems), maxProblems)]
}

func (r *reader) problem(line int, key, what, do string) {
	r.problems = append(r.problems,
		config.Problem{Where: config.Origin{Kind: config.FromFile, Name: r.name, Line: line}, Key: key, What: what, Do: do})
}

// entry is one line of a mapping.
type entry struct {
	key   string
	line  int
	value *yaml.Node
}

// entries reads a mapping of at most limit lines, and tells of keys that are no
// words or stand twice.
func (r *reader) entries(path string, v *yaml.Node, limit int) []entry {
	if v.Kind != yaml.MappingNode {
		r.problem(v.Line, path, "is not a mapping", "write KEY: VALUE lines below it")
		return nil
	}
	var list []entry
	first := make(map[string]int)
	for i := 0; i+1 < len(v.Content) && len(r.problems) < maxProblems; i += 2 {
		key, value := v.Content[i], v.Content[i+1]
		switch at, twice := first[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			r.problem(key.Line, path, "a key must be a word", "write KEY: VALUE")
		case twice:
			r.problem(key.Line, join(path, key.Value), fmt.Sprintf("is written twice, first on line %d", at), "remove one")
		case len(list) == limit:
			r.problem(key.Line, path, fmt.Sprintf("has more than %d lines", limit), "write fewer")
			return list
		default:
			first[key.Value] = key.Line
			list = append(list, entry{key.Value, key.Line, value})
		}
	}
	return list
}

func join(path, key string) string {
	key = config.Printable(key)
	if path == "" {
		return key
	}
	return path + "." + key
}

// unknown tells of a key that is none, and which may have been meant.
func (r *reader) unknown(line int, path, key string, known []string) {
	do := "remove it"
	if near := config.Nearest(key, known); near != "" {
		do = "did you mean " + near + "?"
	}
	r.problem(line, join(path, key), "is not an option", do)
}

func (r *reader) file(root *yaml.Node) (specs []*spec) {
	var list *yaml.Node
	for _, e := range r.entries("", root, 1<<10) {
		if e.key != "devices" {
			r.unknown(e.line, "", e.key, []string{"devices"})
			continue
		}
		list = e.value
	}
	switch {
	case list == nil:
		r.problem(root.Line, "devices", "is missing", "list the devices below it, each after a dash")
		return nil
	case list.Kind != yaml.SequenceNode || len(list.Content) == 0:
		r.problem(list.Line, "devices", "is not a list, or an empty one", "list the devices, each after a dash")
		return nil
	case len(list.Content) > maxDevices:
		r.problem(list.Line, "devices", fmt.Sprintf("lists %d", len(list.Content)), fmt.Sprintf("at most %d", maxDevices))
		return nil
	}
	names := make(map[string]int)
	for i, v := range list.Content {
		s := r.device(i, v)
		if s == nil {
			continue
		}
		if at, twice := names[s.name]; twice && s.name != "" {
			r.problem(s.lineOf("name"), s.key("name"), fmt.Sprintf("is also that of the device on line %d", at),
				"give each a name of its own")
		}
		names[s.name] = s.line
		specs = append(specs, s)
	}
	r.groups(specs, names)
	r.sameMachine(specs)
	return specs
}

// device reads one device. Its name and type are looked up first: the one for the
// messages, the other for what else it may have.
func (r *reader) device(i int, v *yaml.Node) *spec {
	s := &spec{
		place: strconv.Itoa(i + 1), line: v.Line, limits: r.o.Limits,
		lines: make(map[string]int), files: make(map[string]string),
	}
	list := r.entries(s.key(""), v, 1<<10)
	if list == nil {
		return nil
	}
	var called string // its type
	for _, e := range list {
		switch {
		case e.key == "name" && e.value.Kind == yaml.ScalarNode && isName(e.value.Value):
			s.place = e.value.Value
		case e.key == "type" && e.value.Kind == yaml.ScalarNode:
			called = e.value.Value
		}
		s.lines[e.key] = e.line
	}
	at := slices.IndexFunc(kinds(), func(k kind) bool { return k.name == called })
	if at < 0 {
		what, do := fmt.Sprintf("%.100q is no type of device", called), "write one of "+strings.Join(kindNames(), ", ")
		if near := config.Nearest(called, kindNames()); near != "" {
			do = "did you mean " + near + "?"
		}
		if called == "" {
			what = "is missing"
		}
		r.problem(s.lineOf("type"), s.key("type"), what, do)
		return nil
	}
	s.kind = kinds()[at]
	for _, e := range list {
		r.field(s, e)
	}
	r.check(s)
	return s
}

func (r *reader) field(s *spec, e entry) {
	mine := slices.Concat(fields(), s.kind.fields)
	called := func(f field) bool { return f.name == e.key }
	if at := slices.IndexFunc(mine, called); at >= 0 {
		if what, do := mine[at].read(r, s, e.value); what != "" {
			r.problem(e.value.Line, s.key(e.key), what, do)
		}
		return
	}
	if slices.ContainsFunc(kinds(), func(k kind) bool { return slices.ContainsFunc(k.fields, called) }) {
		r.problem(e.line, s.key(e.key), "is of no use for the type "+s.kind.name, "remove it")
		return
	}
	var names []string
	for _, f := range mine {
		names = append(names, f.name)
	}
	r.unknown(e.line, s.key(""), e.key, names)
}

// check looks at what belongs together.
func (r *reader) check(s *spec) {
	if s.kind.check != nil {
		s.kind.check(r, s)
	}
	for _, key := range append([]string{"name"}, s.kind.needs...) {
		if !s.written(key) {
			r.problem(s.line, s.key(key), "is missing", "write it")
		}
	}
	names := make(map[string]node)
	for _, n := range s.nodes { // a kube node may be listed under both of its names
		kube := r.kubeNode(n.name)
		if other, twice := names[kube]; twice {
			r.problem(n.line, s.key("nodes."+n.name), fmt.Sprintf("is the same kube node as on line %d", other.line),
				"remove one")
		}
		names[kube] = n
	}
}
