package inspectorconf

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/config"
)

// Input is a file of the original.
type Input struct {
	File  string // its name, for messages
	Text  []byte
	Hooks []string // that Trivet knows
}

// Output is what became of it.
type Output struct {
	// YAML is a configuration that config.Load accepts. It holds what differs
	// from the defaults alone, and the password of Ironic where there was one.
	YAML []byte
	// Left is what could not be carried over, or not as it was, in the order of
	// the file's lines; what is about a default of the original comes first. No
	// secret is quoted.
	Left []Left
}

// Left is one option that was not carried over, or not as it was.
type Left struct {
	Group Group
	config.Problem
}

// origin is where the value of one of our keys came from.
type origin struct {
	config.Origin
	name name
}

// source is what the original's options say.
type source struct {
	file    map[name][]entry // what is written, in the order of the file
	presets map[name]string
}

// converter is one conversion.
type converter struct {
	in Input
	source
	read map[name]bool // was carried over or answered for

	values map[string]string // our key → text
	from   map[string]origin // our key → the original's option
	left   []Left
}

// Convert turns a file into a configuration of Trivet. The error, if any, is a
// config.Problems with the lines that could not be read.
func Convert(in Input) (Output, error) {
	entries, err := parse(in.File, in.Text)
	if err != nil {
		return Output{}, err
	}
	c := &converter{
		in: in, source: source{file: make(map[name][]entry), presets: composedPresets()}, read: make(map[name]bool),
		values: make(map[string]string), from: make(map[string]origin),
	}
	for _, e := range entries {
		c.file[e.name] = append(c.file[e.name], e)
	}
	plain := plainOptions()
	for _, o := range plain {
		c.presets[o.name] = o.preset
	}
	for _, o := range plain { // which may refer to each other
		c.carry(o)
	}
	c.compose()
	c.rest(entries)
	c.dropRefused()
	text, err := c.yaml()
	if err != nil {
		return Output{}, err
	}
	slices.SortStableFunc(c.left, func(a, b Left) int { return cmp.Compare(a.Where.Line, b.Where.Line) })
	return Output{YAML: text, Left: c.left}, nil
}

// carry takes one option over.
func (c *converter) carry(o option) {
	text, written := c.get(o.name)
	if text == "" && !written {
		return
	}
	if value, ok := c.turned(o.name, o.turn); ok {
		c.set(o.to, value, o.name)
	}
}

// turned is an option's text in our words; where it has none it is lost.
func (c *converter) turned(n name, turn turn) (value string, ok bool) {
	text, _ := c.get(n)
	value, f := turn(text)
	if f != nil {
		c.lose(n, loss{Lost, f.what, f.do})
	}
	return value, f == nil
}

// get returns the effective text of an option and whether the file writes it:
// of several lines the last counts. A text that cannot be made out is lost,
// and the default takes its place.
func (c *converter) get(n name) (text string, written bool) {
	c.read[n] = true
	text = c.presets[n]
	if all := c.file[n]; len(all) > 0 {
		text, written = all[len(all)-1].value, true
	}
	expanded, f := c.expand(n.section, text, 0)
	if f != nil && isSecret(n) { // the usual words would quote a part of it
		f = &fault{"a dollar sign in it begins the name of an option that is not there", "write $$ for a dollar sign"}
	}
	if f != nil {
		c.lose(n, loss{Lost, f.what, f.do})
		return "", false
	}
	return expanded, written
}

// set gives a key of ours its value.
func (c *converter) set(key, value string, n name) {
	c.values[key] = value
	c.from[key] = origin{c.where(n), n}
}

// where is the line of an option, its last if there are several.
func (c *converter) where(n name) config.Origin {
	all := c.file[n]
	if len(all) == 0 {
		return config.Origin{} // a default of the original
	}
	return config.Origin{Kind: config.FromFile, Name: c.in.File, Line: all[len(all)-1].line}
}

// lose notes that an option is not carried over, or not as it was.
func (c *converter) lose(n name, why loss) {
	c.read[n] = true
	c.left = append(c.left, Left{why.group,
		config.Problem{Where: c.where(n), Key: n.String(), What: why.what, Do: why.do}})
}

// rest answers for everything that is written and was not read.
func (c *converter) rest(entries []entry) {
	sections, options := lostSections(), lostOptions()
	for _, e := range entries {
		if c.read[e.name] {
			continue
		}
		why, known := options[e.name]
		if !known {
			why, known = sections[e.section]
		}
		if !known {
			why = loss{Lost, "is no option that is known here",
				"see whether the original knows it; 'trivet config template' lists Trivet's"}
		}
		c.lose(e.name, why)
	}
}

// dropRefused takes out what our own rules refuse, until nothing is. Each round
// takes out a key at least, so it ends.
func (c *converter) dropRefused() {
	for range len(c.values) + 1 {
		conf, err := config.Load(config.Sources{Flags: c.values})
		problems, _ := err.(config.Problems)
		problems = append(problems, conf.CheckPairs()...)
		if len(problems) == 0 {
			return
		}
		for _, p := range problems {
			c.refuse(p)
		}
	}
}

// refuse drops the key of a problem. One that is missing takes with it what
// asked for it: the login at Ironic.
func (c *converter) refuse(p config.Problem) {
	key := p.Key
	if _, there := c.values[key]; !there {
		key = "ironic.auth_type"
	}
	if _, there := c.values[key]; !there {
		return // two problems of one round
	}
	from := c.from[key]
	delete(c.values, key)
	c.left = append(c.left, Left{Lost,
		config.Problem{Where: from.Origin, Key: from.name.String(), What: "as " + p.Key + ": " + p.What, Do: p.Do}})
}

// yaml writes down what differs from the defaults.
func (c *converter) yaml() ([]byte, error) {
	conf, err := config.Load(config.Sources{Flags: c.values})
	if err != nil {
		return nil, fmt.Errorf("%s: what became of it is no configuration: %w", c.in.File, err)
	}
	standard := make(map[string]string)
	for _, s := range config.Default().Effective() {
		standard[s.Key] = s.Value
	}
	values := maps.Clone(c.values)
	for _, s := range conf.Effective() {
		// An endpoint of Ironic is written even with its default: with keystone one that is not is looked up.
		if s.Value == standard[s.Key] && s.Key != "ironic.endpoint" {
			delete(values, s.Key)
		}
	}
	text, err := config.Minimal(values)
	if err != nil {
		return nil, err
	}
	return append(head(c.in.File, values), text...), nil
}

// head says where the file comes from, and who may read it.
func head(file string, values map[string]string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by 'trivet-import config' from %q.\n", file)
	b.WriteString("# What is not here has its default: 'trivet config template' lists it all.\n")
	if values["ironic.password"] != "" || values["api.keystone.password"] != "" {
		b.WriteString("# It holds a password: only root and the user trivet may read it.\n")
	}
	return []byte(b.String())
}
