package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/internal/bounds"
)

// Amend returns the text of a file with values (key → value as in a variable)
// written into it. No line that says something changes. A key that the file
// shows commented out, as [Template] does, is written in that place; any other
// goes to the top of its section, or with a new section to the end. Lines end as the
// first does; a byte order mark is left out. name is that of the file, for messages.
//
// It refuses keys that the file sets already, values that are wrong by themselves,
// and files whose form leaves it no place, such as "api: {listen: …}" on one
// line. What it returns was read back and says what both sides said; whether that
// is right together [Load] says, since each side may have one half of a pair.
func Amend(name string, text []byte, values map[string]string) ([]byte, error) {
	var problems Problems
	given := make(map[string]any)
	for _, s := range flagSettings(values, &problems) {
		given[s.Key] = s.Value
	}
	if err := problems.err(); err != nil {
		return nil, fmt.Errorf("amend %s: %w", name, err)
	}
	before := fileSettings(name, text, &problems)
	if err := problems.err(); err != nil {
		return nil, err
	}
	want := make(map[string]any, len(before)+len(values))
	for _, s := range before {
		want[s.Key] = s.Value
	}
	draft := lines{text: strings.Split(strings.TrimSuffix(string(bounds.WithoutMark(text)), "\n"), "\n")}
	if strings.HasSuffix(draft.text[0], "\r") {
		draft.end = "\r"
	}
	for _, o := range table { // in the order of the template
		value, ok := given[o.Key]
		if !ok {
			continue
		}
		if _, twice := want[o.Key]; twice {
			return nil, fmt.Errorf("amend %s: %s is written there already", name, o.Key)
		}
		want[o.Key] = value
		draft.write(o, values[o.Key])
	}
	out := []byte(strings.TrimPrefix(strings.Join(draft.text, "\n"), "\n") + "\n")
	return out, readBack(name, out, want)
}

// readBack makes sure that the text says what was wanted and nothing else.
func readBack(name string, text []byte, want map[string]any) error {
	var problems Problems
	got := make(map[string]any)
	for _, s := range fileSettings(name, text, &problems) {
		got[s.Key] = s.Value
	}
	if len(problems) > 0 || !reflect.DeepEqual(got, want) {
		return fmt.Errorf(
			"%s is of a form into which nothing can be written without changing what it says; write each section on a line of its own, its keys below it",
			name)
	}
	return nil
}

// lines is a file under amendment.
type lines struct {
	text []string
	end  string // of a line that is written, before its \n
}

// write puts one key into its section.
func (l *lines) write(o Option, value string) {
	path, name := split(o.Key)
	header, end := l.section(path)
	line := name + ": " + o.yaml(value) + l.end
	indent, siblings := l.childIndent(header, end)
	shown := regexp.MustCompile(`^( *)#` + regexp.QuoteMeta(name) + `:( |\r?$)`)
	for i := header + 1; i < end; i++ {
		found := shown.FindStringSubmatch(l.text[i])
		if found == nil || len(found[1]) < len(indent) && header >= 0 || header < 0 && found[1] != "" {
			continue
		}
		if !siblings {
			indent = found[1]
		}
		l.text[i] = indent + line
		return
	}
	at := header + 1
	if header < 0 { // below what the file has at its top, the head comment at least
		at = len(l.text)
	}
	l.text = slices.Insert(l.text, at, indent+line)
}

// section finds the mapping of a path: the line of its name, -1 for the file
// itself, and the line after its last one. A section that is missing is begun.
func (l *lines) section(path string) (header, end int) {
	if path == "" {
		return -1, len(l.text)
	}
	parent, name := split(path)
	outer, limit := l.section(parent)
	indent, _ := l.childIndent(outer, limit)
	title := regexp.MustCompile(`^( *)#?` + regexp.QuoteMeta(name) + `: *(#.*)?\r?$`)
	for i := outer + 1; i < limit; i++ {
		if found := title.FindStringSubmatch(l.text[i]); found != nil && found[1] == indent {
			l.text[i] = strings.Replace(l.text[i], "#"+name+":", name+":", 1)
			return i, l.blockEnd(i, len(indent), limit)
		}
	}
	at := limit
	if outer >= 0 {
		at = outer + 1
	}
	l.text = slices.Insert(l.text, at, indent+name+":"+l.end)
	return at, at + 1
}

// blockEnd finds the line after the last one that belongs to the section whose
// name stands on line header: the next that says something and is not indented
// deeper.
func (l *lines) blockEnd(header, indent, limit int) int {
	for i := header + 1; i < limit; i++ {
		if depth, says := depthOf(l.text[i]); says && depth <= indent {
			return i
		}
	}
	return limit
}

// childIndent is what the keys of a section are indented with, and whether
// there are any that say so.
func (l *lines) childIndent(header, end int) (indent string, siblings bool) {
	if header < 0 {
		return "", true
	}
	for i := header + 1; i < end; i++ {
		if depth, says := depthOf(l.text[i]); says {
			return strings.Repeat(" ", depth), true
		}
	}
	depth, _ := depthOf(l.text[header])
	return strings.Repeat(" ", depth+2), false
}

// depthOf counts the blanks before the first word; says is false for comments
// and empty lines.
func depthOf(line string) (depth int, says bool) {
	rest := strings.TrimLeft(line, " ")
	return len(line) - len(rest), rest != "" && rest[0] != '#' && rest[0] != '\r'
}
