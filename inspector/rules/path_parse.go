package rules

import (
	"fmt"
	"strconv"
	"strings"
)

// maxPath is how long a path may be, in bytes.
const maxPath = 1024

// schemes are what the field of a condition may begin with, and whether it is
// about the node then.
var schemes = map[string]bool{"data": false, "node": true}

// field is where a condition finds its values.
type field struct {
	ofNode bool // else in the data
	text   string
	path   path
}

// parseField reads the field of a condition. An error is the contract's text.
func parseField(text string) (field, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "data", text
	}
	ofNode, known := schemes[scheme]
	if !known {
		return field{}, invalidf("Unsupported scheme for field: %s, valid values are node:// or data://", clip(scheme))
	}
	p, err := parsePath(rest)
	if err != nil {
		return field{}, invalidf("Unable to parse field JSON path %s: %w", clip(text), err)
	}
	return field{ofNode: ofNode, text: rest, path: p}, nil
}

// levels are how strongly operators bind. Brackets bind least of all: what they
// hold applies to all that stands before them.
var levels = map[tokenKind]int{tokenDescend: 1, ".": 2, "|": 3, "&": 4, tokenWhere: 5}

// pathParser reads jsonpath-rw's grammar.
type pathParser struct {
	lexer lexer
	token token // the next one
}

// parsePath reads a path in jsonpath-rw's dialect.
func parsePath(text string) (path, error) {
	if len(text) > maxPath {
		return nil, fmt.Errorf("it has %d bytes, allowed are %d", len(text), maxPath)
	}
	p := &pathParser{lexer: lexer{text: []rune(text), line: 1}}
	if err := p.step(); err != nil {
		return nil, err
	}
	found, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if p.token.kind != tokenEnd {
		return nil, p.unexpected()
	}
	return found, nil
}

func (p *pathParser) step() (err error) {
	p.token, err = p.lexer.next()
	return err
}

// unexpected is the error about the next token.
func (p *pathParser) unexpected() error {
	t := p.token
	if t.kind == tokenEnd {
		return invalidf("Parse error near the end of string!")
	}
	return invalidf("Parse error at %d:%d near token %s (%s)", t.line, t.col, t.text, t.kind)
}

// accept steps over a token if it comes next.
func (p *pathParser) accept(kind tokenKind) (bool, error) {
	if p.token.kind != kind {
		return false, nil
	}
	return true, p.step()
}

func (p *pathParser) expect(kind tokenKind) error {
	if ok, err := p.accept(kind); err != nil || ok {
		return err
	}
	return p.unexpected()
}

// expression reads operators that bind at least as strongly as least, all of
// them from the left.
func (p *pathParser) expression(least int) (path, error) {
	left, err := p.primary()
	for err == nil {
		kind := p.token.kind
		switch level := levels[kind]; {
		case kind == "[" && least == 0:
			var inner path
			inner, err = p.brackets()
			left = child{left, inner}
		case level > 0 && level >= least:
			if err = p.step(); err == nil {
				left, err = p.binary(kind, left, level)
			}
		default:
			return left, nil
		}
	}
	return nil, err
}

func (p *pathParser) binary(kind tokenKind, left path, level int) (path, error) {
	right, err := p.expression(level + 1)
	if err != nil {
		return nil, err
	}
	switch kind {
	case ".":
		return child{left, right}, nil
	case tokenDescend:
		return descendants{left, right}, nil
	case "|":
		return union{left, right}, nil
	case tokenWhere:
		return where{left, right}, nil
	default: // the original takes it and fails each time it meets it
		return nil, fmt.Errorf("no rule can use the operator %s", kind)
	}
}

func (p *pathParser) primary() (path, error) {
	t := p.token
	switch t.kind {
	case "[":
		return p.brackets()
	case "(":
		return p.group()
	case tokenID:
		return p.fields()
	case "*":
		return fields{"*"}, p.step()
	case "$":
		return root{}, p.step()
	case tokenNamed:
		if err := p.step(); err != nil {
			return nil, err
		}
		switch t.text {
		case "this":
			return this{}, nil
		case "parent":
			return parent{}, nil
		}
		return nil, invalidf("Unknown named operator `%s` at %d:%d", t.text, t.line, t.at)
	default:
		return nil, p.unexpected()
	}
}

func (p *pathParser) group() (path, error) {
	if err := p.step(); err != nil {
		return nil, err
	}
	inner, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	return inner, p.expect(")")
}

// fields reads names with commas between them.
func (p *pathParser) fields() (path, error) {
	names := fields{p.token.text}
	if err := p.step(); err != nil {
		return nil, err
	}
	for {
		if ok, err := p.accept(","); err != nil || !ok {
			return names, err
		}
		name := p.token.text
		if err := p.expect(tokenID); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
}

// brackets reads an index, a slice, or names.
func (p *pathParser) brackets() (path, error) {
	if err := p.step(); err != nil {
		return nil, err
	}
	var inner path
	var err error
	switch p.token.kind {
	case tokenID:
		inner, err = p.fields()
	case "*":
		inner, err = slice{}, p.step()
	default:
		inner, err = p.numbers()
	}
	if err != nil {
		return nil, err
	}
	return inner, p.expect("]")
}

// numbers reads n, n:, :n, n:n or a colon.
func (p *pathParser) numbers() (path, error) {
	start, err := p.number()
	if err != nil {
		return nil, err
	}
	colon, err := p.accept(":")
	switch {
	case err != nil:
		return nil, err
	case !colon && start == nil:
		return nil, p.unexpected()
	case !colon:
		return element(*start), nil
	}
	end, err := p.number()
	return slice{start, end}, err
}

// number reads a number, nil if none comes next. One that fits no list is as
// good as any other of its sign.
func (p *pathParser) number() (*int, error) {
	text := p.token.text
	if ok, err := p.accept(tokenNumber); err != nil || !ok {
		return nil, err
	}
	const large = 1 << 30
	n, err := strconv.Atoi(text)
	switch {
	case err != nil && text[0] == '-', n < -large:
		n = -large
	case err != nil, n > large:
		n = large
	}
	return &n, nil
}
