package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// translator rewrites a pattern of Python's re for RE2. What RE2 has not is
// refused by name. Groups lose their names and capture nothing: whether there is
// a match is all that is asked.
type translator struct {
	text  []rune
	at    int
	out   strings.Builder
	names []string
}

// modes are the flags of a group that RE2 spells otherwise or does not know.
type modes struct{ ascii, verbose, multiline bool }

// translate returns a pattern in Go's syntax.
func translate(source string) (string, error) {
	if len(source) > maxPattern {
		return "", fmt.Errorf("it has %d bytes, allowed are %d", len(source), maxPattern)
	}
	t := &translator{text: []rune(source)}
	m, err := t.globalFlags()
	if err != nil {
		return "", err
	}
	if err := t.items(m, false); err != nil {
		return "", err
	}
	return t.out.String() + ")", nil // the group that globalFlags opened
}

func (t *translator) errorf(at int, format string, args ...any) error {
	return fmt.Errorf("%s at position %d", fmt.Sprintf(format, args...), at)
}

// unknown refuses a construct that RE2 does not have.
func (t *translator) unknown(at int, what string) error {
	return t.errorf(at, "%s is not supported: patterns are matched in linear time, which it would not allow", what)
}

// peek returns the rune n further on, 0 behind the end.
func (t *translator) peek(n int) rune {
	if t.at+n < len(t.text) {
		return t.text[t.at+n]
	}
	return 0
}

// has reports whether a text comes next, and steps over it if so.
func (t *translator) has(text string) bool {
	next := []rune(text)
	if !slices.Equal(t.text[t.at:min(t.at+len(next), len(t.text))], next) {
		return false
	}
	t.at += len(next)
	return true
}

// globalFlags reads flags that concern the whole pattern, and opens a group that
// has them.
func (t *translator) globalFlags() (modes, error) {
	m, set := modes{}, ""
	for t.peek(0) == '(' && t.peek(1) == '?' && isFlag(t.peek(2)) {
		end := slices.Index(t.text[t.at:], ')')
		colon := slices.IndexFunc(t.text[t.at:], func(r rune) bool { return r == ':' || r == '-' })
		if end < 0 || 0 <= colon && colon < end {
			break // of a group
		}
		letters := string(t.text[t.at+2 : t.at+end])
		more, err := t.flags(letters, &m, true)
		if err != nil {
			return m, err
		}
		set += more
		t.at += end + 1
	}
	t.out.WriteString("(?" + set + ":")
	return m, nil
}

func isFlag(r rune) bool { return r != 0 && strings.ContainsRune("aiLmsux", r) }

// flags applies letters to modes and returns those that RE2 knows.
func (t *translator) flags(letters string, m *modes, on bool) (known string, err error) {
	for _, r := range letters {
		switch r {
		case 'a':
			m.ascii = on
		case 'u':
			m.ascii = false
		case 'x':
			m.verbose = on
		case 'm':
			m.multiline = on
			known += "m"
		case 'i', 's':
			known += string(r)
		case 'L':
			return "", t.errorf(t.at, "bad inline flags: cannot use 'L' flag with a str pattern")
		default:
			return "", t.errorf(t.at, "unknown flag")
		}
	}
	return known, nil
}

// items reads alternatives to the end of the pattern or of the group.
func (t *translator) items(m modes, nested bool) error {
	repeats := false // the last item is a repeat, which nothing may repeat
	for t.at < len(t.text) {
		r := t.text[t.at]
		switch {
		case r == ')' && nested:
			return nil
		case r == ')':
			return t.errorf(t.at, "unbalanced parenthesis")
		case m.verbose && (unicode.IsSpace(r) || r == '#'):
			t.skip(r)
			continue
		case strings.ContainsRune("*+?", r), r == '{' && t.repeat() != "":
			if repeats {
				return t.errorf(t.at, "multiple repeat")
			}
			if err := t.quantifier(); err != nil {
				return err
			}
			repeats = true
			continue
		}
		comment := t.peek(1) == '?' && t.peek(2) == '#'
		if err := t.item(r, m); err != nil {
			return err
		}
		repeats = repeats && comment
	}
	if nested {
		return t.errorf(len(t.text), "missing ), unterminated subpattern")
	}
	return nil
}

// skip steps over white space, or over a comment to the end of the line.
func (t *translator) skip(r rune) {
	t.at++
	for r == '#' && t.at < len(t.text) && t.text[t.at] != '\n' {
		t.at++
	}
}

func (t *translator) item(r rune, m modes) error {
	switch r {
	case '(':
		return t.group(m)
	case '[':
		return t.class(m)
	case '\\':
		return t.escape(m)
	case '.', '^', '|':
		t.out.WriteRune(r)
	case '$':
		if m.multiline {
			t.out.WriteRune('$')
		} else {
			t.out.WriteString(`(?:\n?\z)`) // at the end, or before a newline there
		}
	default:
		t.out.WriteString(regexp.QuoteMeta(string(r)))
	}
	t.at++
	return nil
}

// repeat returns {m,n} if it comes next, as RE2 spells it, else nothing: then
// the brace stands for itself.
func (t *translator) repeat() string {
	end := slices.Index(t.text[t.at:], '}')
	if end < 0 {
		return ""
	}
	least, most, comma := strings.Cut(string(t.text[t.at+1:t.at+end]), ",")
	if strings.Trim(least+most, "0123456789") != "" || least == "" && !comma {
		return ""
	}
	if least == "" {
		least = "0"
	}
	if !comma {
		return "{" + least + "}"
	}
	return "{" + least + "," + most + "}"
}

func (t *translator) quantifier() error {
	at := t.at
	if t.text[t.at] == '{' {
		t.out.WriteString(t.repeat())
		t.at += slices.Index(t.text[t.at:], '}') + 1
	} else {
		t.out.WriteRune(t.text[t.at])
		t.at++
	}
	switch t.peek(0) {
	case '+':
		return t.unknown(at, fmt.Sprintf("the possessive quantifier %s", string(t.text[at:t.at+1])))
	case '?':
		t.out.WriteRune('?')
		t.at++
	}
	return nil
}

// refused are extensions that RE2 does not have.
var refused = []struct{ text, name string }{
	{"(?=", "look-ahead (?=…)"}, {"(?!", "negative look-ahead (?!…)"}, {"(?<=", "look-behind (?<=…)"},
	{"(?<!", "negative look-behind (?<!…)"}, {"(?P=", "the back-reference (?P=…)"}, {"(?>", "the atomic group (?>…)"},
	{"(?(", "the conditional (?(…)…)"},
}

// group reads a group with all that it holds.
func (t *translator) group(m modes) error {
	at := t.at
	for _, construct := range refused {
		if t.has(construct.text) {
			return t.unknown(at, construct.name)
		}
	}
	switch {
	case t.has("(?#"):
		return t.comment(at)
	case t.has("(?P<"):
		if err := t.name(at); err != nil {
			return err
		}
		t.out.WriteString("(?:")
	case t.has("(?:"):
		t.out.WriteString("(?:")
	case t.has("(?"):
		if err := t.groupFlags(at, &m); err != nil {
			return err
		}
	default:
		t.at++
		t.out.WriteString("(?:")
	}
	if err := t.items(m, true); err != nil {
		return err
	}
	t.out.WriteByte(')')
	t.at++
	return nil
}

func (t *translator) comment(at int) error {
	end := slices.Index(t.text[t.at:], ')')
	if end < 0 {
		return t.errorf(at, "missing ), unterminated comment")
	}
	t.at += end + 1
	return nil
}

// name reads the name of a group.
func (t *translator) name(at int) error {
	end := slices.Index(t.text[t.at:], '>')
	if end < 0 {
		return t.errorf(t.at, "missing >, unterminated name")
	}
	name := string(t.text[t.at : t.at+end])
	for i, r := range name {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return t.errorf(t.at, "bad character in group name %s", reprText(name))
		}
	}
	switch {
	case name == "":
		return t.errorf(t.at, "missing group name")
	case slices.Contains(t.names, name):
		return t.errorf(at, "redefinition of group name %s", reprText(name))
	}
	t.names = append(t.names, name)
	t.at += end + 1
	return nil
}

// groupFlags reads the flags of a group, such as "i-s:".
func (t *translator) groupFlags(at int, m *modes) error {
	end := t.at
	for end < len(t.text) && (isFlag(t.text[end]) || t.text[end] == '-') {
		end++
	}
	letters := string(t.text[t.at:end])
	switch {
	case end < len(t.text) && t.text[end] == ')' && letters != "":
		return t.errorf(at, "global flags not at the start of the expression")
	case letters == "" || end == len(t.text) || t.text[end] != ':':
		return t.errorf(at, "unknown extension ?%c", t.peek(0))
	}
	set, unset, both := strings.Cut(letters, "-")
	on, err := t.flags(set, m, true)
	if err != nil {
		return err
	}
	off, err := t.flags(unset, m, false)
	if err != nil {
		return err
	}
	if both && off != "" {
		on += "-" + off
	}
	t.out.WriteString("(?" + on + ":")
	t.at = end + 1
	return nil
}

// escape reads what follows a backslash outside of a class.
func (t *translator) escape(m modes) error {
	at, r := t.at, t.peek(1)
	switch {
	case r == 'A', r == 'b', r == 'B':
		t.out.WriteString(`\` + string(r))
	case r == 'Z':
		t.out.WriteString(`\z`)
	case r != 0 && strings.ContainsRune("dDwWsS", r):
		t.out.WriteString(category(r, m.ascii))
	case '1' <= r && r <= '9' && !t.octal():
		return t.unknown(at, fmt.Sprintf(`the back-reference \%c`, r))
	default:
		r, err := t.character()
		if err != nil {
			return err
		}
		t.out.WriteString(regexp.QuoteMeta(string(r)))
		return nil
	}
	t.at += 2
	return nil
}

// octal reports whether the escape is three octal digits, which stand for a
// character.
func (t *translator) octal() bool {
	for n := 1; n <= 3; n++ {
		if r := t.peek(n); r < '0' || r > '7' {
			return false
		}
	}
	return true
}

// characters are the escapes of one letter.
var characters = map[rune]rune{'a': '\a', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// hexDigits are how many digits follow an escape.
var hexDigits = map[rune]int{'x': 2, 'u': 4, 'U': 8}

// character reads an escape that stands for one character.
func (t *translator) character() (rune, error) {
	at, r := t.at, t.peek(1)
	if r == 0 && at+1 >= len(t.text) {
		return 0, t.errorf(at, `bad escape (end of pattern)`)
	}
	t.at += 2
	switch {
	case hexDigits[r] > 0:
		return t.coded(at, r, hexDigits[r])
	case '0' <= r && r <= '7':
		return t.octalCharacter(at)
	case r == 'N':
		return 0, t.errorf(at, `a character by its name, \N{…}, is not supported`)
	case characters[r] != 0:
		return characters[r], nil
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '8' <= r && r <= '9':
		return 0, t.errorf(at, `bad escape \%c`, r)
	}
	return r, nil
}

func (t *translator) coded(at int, letter rune, digits int) (rune, error) {
	end := min(t.at+digits, len(t.text))
	code, err := strconv.ParseUint(string(t.text[t.at:end]), 16, 32)
	if err != nil || end-t.at < digits || code > unicode.MaxRune {
		return 0, t.errorf(at, `incomplete or bad escape \%c%s`, letter, string(t.text[t.at:end]))
	}
	t.at = end
	return rune(code), nil
}

// octalCharacter reads up to three octal digits, the first of which was taken.
func (t *translator) octalCharacter(at int) (rune, error) {
	from := t.at - 1
	for t.at < from+3 && '0' <= t.peek(0) && t.peek(0) <= '7' {
		t.at++
	}
	code, err := strconv.ParseUint(string(t.text[from:t.at]), 8, 8)
	if err != nil {
		return 0, t.errorf(at, `octal escape value \%s outside of range 0-0o377`, string(t.text[from:t.at]))
	}
	return rune(code), nil
}
