package rules

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/inspector/document"
)

// Bounds of patterns. RE2 takes time in proportion to the text and to the
// pattern's program, so both are bounded, and so is their product.
const (
	maxPattern = 2000 // bytes
	maxProgram = 8000 // instructions and ranges of characters, in all patterns of a rule
	maxSteps   = 100_000_000
)

// pattern is a compiled regular expression.
type pattern struct {
	re    *regexp.Regexp
	cost  int      // as maxProgram counts
	needs []string // what every text that matches holds, in this order and apart
}

// compile makes a pattern of Python's syntax, as far as RE2 has it. Put around it
// is what it is anchored by, as in fmt; its size is taken off room. An error is what
// the contract puts behind "invalid regular expression: ".
func compile(source, around string, room *int) (*pattern, error) {
	if len(source) > maxPattern {
		return nil, fmt.Errorf("it has %d bytes, allowed are %d", len(source), maxPattern)
	}
	translated, err := translate(source)
	if err == nil {
		_, err = syntax.Parse(translated, syntax.Perl) // alone: what stands around it must not close its groups
	}
	if err != nil {
		return nil, syntaxText(err)
	}
	translated = fmt.Sprintf(around, translated)
	parsed, err := syntax.Parse(translated, syntax.Perl)
	if err != nil {
		return nil, syntaxText(err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, syntaxText(err)
	}
	p := &pattern{needs: literals(parsed)}
	const rangesOf = 8 // characters of a class that are as large as an instruction
	for i := range program.Inst {
		p.cost += 1 + len(program.Inst[i].Rune)/rangesOf
	}
	if *room -= p.cost; *room < 0 {
		return nil, fmt.Errorf("the patterns of a rule may have %d instructions together, these have more", maxProgram)
	}
	p.re, err = regexp.Compile(translated)
	return p, err
}

// syntaxText says what is wrong with a pattern, and what patterns may have.
func syntaxText(err error) error {
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		err = fmt.Errorf("%s: %s", e.Code, document.Clip(e.Expr))
	}
	return fmt.Errorf(
		"%w; value has the syntax of RE2: write it without look-around, back-references, atomic groups, possessive quantifiers and the flag x",
		err)
}

// endOfText is Python's $: the end, or before a newline there; with the flag m the
// end of each line.
const endOfText = `(?:$|\n?\z)`

// translate rewrites what RE2 reads in another way than Python's re. What it does
// not know it refuses itself.
func translate(source string) (string, error) {
	var out strings.Builder
	set := 0 // where the set around has its members; 0: there is none
	for at := 0; at < len(source); {
		rest := source[at:]
		read, written := rest[:1], rest[:1]
		switch {
		case rest[0] == '\\' && len(rest) > 1:
			read = rest[:2]
			if written = escape(read, set > 0); written == "" {
				return "", fmt.Errorf("%s is not supported at position %d", read, utf8.RuneCountInString(source[:at]))
			}
		case set > 0 && rest[0] == ']' && at > set:
			set = 0
		case set > 0 && rest[0] == '[':
			written = `\[` // to RE2 [: begins a class of POSIX
		case set > 0:
		case strings.HasPrefix(rest, "[^"):
			read, written, set = "[^", "[^", at+2
		case rest[0] == '[':
			set = at + 1
		case rest[0] == '$':
			written = endOfText
		case strings.HasPrefix(rest, "{,"):
			if most, _, closed := strings.Cut(rest[2:], "}"); closed && strings.Trim(most, "0123456789") == "" {
				written = "{0"
			}
		case at > 0 && strings.HasPrefix(rest, "(?") && strings.HasPrefix(strings.TrimLeft(rest[2:], "imsU-"), ")"):
			return "", fmt.Errorf("global flags not at the start of the expression at position %d",
				utf8.RuneCountInString(source[:at]))
		}
		out.WriteString(written)
		at += len(read)
	}
	return out.String(), nil
}

// escape rewrites a backslash and the byte behind it; "" if no set may hold it.
// Python's categories, unlike RE2's, are about Unicode.
func escape(read string, inSet bool) string {
	members := map[byte]string{
		'd': `\p{Nd}`,
		'w': `_\p{L}\p{N}`,
		's': `\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}`,
	}[read[1]|0x20]
	negated := read[1] < 'a'
	switch {
	case read == `\Z`:
		return `\z`
	case read == `\Q`, members != "" && inSet && negated:
		return ""
	case members == "":
		return read
	case inSet:
		return members
	case negated:
		return "[^" + members + "]"
	default:
		return "[" + members + "]"
	}
}

// matches searches a text.
func (p *pattern) matches(text string) (bool, error) {
	if len(text) > maxSteps/p.cost {
		return false, document.Failed("A field has %d bytes as text, too many for the pattern of a rule", len(text))
	}
	rest, found := text, true
	for _, need := range p.needs { // a tenth of the work, and nearly no text has them
		if _, rest, found = strings.Cut(rest, need); !found {
			return false, nil
		}
	}
	return p.re.MatchString(text), nil
}

// literals returns the texts that an expression cannot match without, in the
// order in which they follow each other.
func literals(re *syntax.Regexp) (all []string) {
	switch re.Op {
	case syntax.OpLiteral:
		text := string(re.Rune)
		// which also stands for bytes that are no text
		if re.Flags&syntax.FoldCase == 0 && !strings.ContainsRune(text, utf8.RuneError) {
			return []string{text}
		}
	case syntax.OpConcat, syntax.OpCapture:
		for _, part := range re.Sub {
			all = append(all, literals(part)...)
		}
	}
	return all
}
