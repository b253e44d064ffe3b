package rules

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/inspector"
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

// compile makes a pattern of Python's syntax. Put around it is what it is
// anchored by, as in fmt; its size is taken off room. An error is what the contract
// puts behind "invalid regular expression: ".
func compile(source, around string, room *int) (*pattern, error) {
	translated, err := translate(source)
	if err != nil {
		return nil, err
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

// syntaxText shortens what package syntax says of an expression that the caller
// did not write.
func syntaxText(err error) error {
	var e *syntax.Error
	if errors.As(err, &e) {
		return fmt.Errorf("%s: %s", e.Code, clip(e.Expr))
	}
	return err
}

// matches searches a text.
func (p *pattern) matches(text string) (bool, error) {
	if len(text) > maxSteps/p.cost {
		return false, inspector.Failed("A field has %d bytes as text, too many for the pattern of a rule", len(text))
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
		if re.Flags&syntax.FoldCase == 0 && !strings.ContainsRune(text, utf8.RuneError) { // which also stands for bytes that are no text
			return []string{text}
		}
	case syntax.OpConcat, syntax.OpCapture:
		for _, part := range re.Sub {
			all = append(all, literals(part)...)
		}
	}
	return all
}
