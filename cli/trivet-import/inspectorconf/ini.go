package inspectorconf

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/bounds"
)

// maxMistakes bounds what is said about a file that is no INI file.
const maxMistakes = 100

// defaultSection is the section whose name is told by case; those of all others
// are not.
const defaultSection = "DEFAULT"

// name is what an option of the original is called.
type name struct{ section, key string }

// String is the name as its documentation writes it.
func (n name) String() string { return "[" + n.section + "] " + n.key }

// entry is one assignment. A value of several lines holds the line breaks.
type entry struct {
	name
	value string
	line  int // of the key, first is 1
}

// parser reads the dialect of oslo.config: continuation lines begin with a
// blank, comments stand on lines of their own, "=" or ":" assigns.
type parser struct {
	file     string
	section  string
	entries  []entry
	open     bool // the last entry may go on
	problems config.Problems
}

// parse reads a whole file. The error is a config.Problems with up to
// maxMistakes lines that are none of an INI file.
func parse(file string, text []byte) ([]entry, error) {
	p := &parser{file: file}
	if len(text) > config.MaxFile {
		p.mistake(0, fmt.Sprintf("the file has %d bytes", len(text)), fmt.Sprintf("at most %d", config.MaxFile))
		return nil, p.problems
	}
	for number, raw := range bytes.Split(bounds.WithoutMark(text), []byte("\n")) {
		if len(p.problems) == maxMistakes {
			break
		}
		if !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 {
			p.mistake(number+1, "the line is not text in UTF-8", "save the file as UTF-8")
			continue
		}
		switch line := strings.TrimRight(string(raw), " \t\r\f\v"); {
		case line == "", line[0] == '#', line[0] == ';':
			p.open = false
		case (line[0] == ' ' || line[0] == '\t') && !p.open:
			p.mistake(number+1, "the line is indented and continues nothing", "take the blanks at its beginning away")
		case line[0] == ' ', line[0] == '\t':
			p.entries[len(p.entries)-1].value += "\n" + strings.TrimLeft(line, " \t")
		case line[0] == '[':
			p.begin(number+1, line)
		default:
			p.assign(number+1, line)
		}
	}
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	return p.entries, nil
}

func (p *parser) mistake(line int, what, do string) {
	where := config.Origin{Kind: config.FromFile, Name: p.file, Line: line}
	p.problems = append(p.problems, config.Problem{Where: where, What: what, Do: do})
}

func (p *parser) begin(number int, line string) {
	p.open = false
	if len(line) < 3 || line[len(line)-1] != ']' {
		p.mistake(number, "the line begins a section and does not end it", "write [SECTION]")
		return
	}
	p.section = sectionName(line[1 : len(line)-1])
}

func sectionName(text string) string {
	if text == defaultSection {
		return text
	}
	return strings.ToLower(text)
}

func (p *parser) assign(number int, line string) {
	p.open = false
	at := strings.IndexAny(line, "=:")
	if at < 0 {
		p.mistake(number, "the line assigns nothing", "write OPTION = VALUE")
		return
	}
	key := strings.TrimSpace(line[:at])
	switch {
	case key == "":
		p.mistake(number, "the value has no name", "write OPTION = VALUE")
		return
	case p.section == "":
		p.mistake(number, "the option stands before the first section", "write [DEFAULT] above it")
		return
	}
	named := name{p.section, strings.ReplaceAll(key, "-", "_")}
	p.entries = append(p.entries, entry{name: named, value: unquote(strings.TrimSpace(line[at+1:])), line: number})
	p.open = true
}

// unquote takes one pair of quotes away that encloses the whole value.
func unquote(text string) string {
	if len(text) > 1 && text[0] == text[len(text)-1] && (text[0] == '"' || text[0] == '\'') {
		return text[1 : len(text)-1]
	}
	return text
}
