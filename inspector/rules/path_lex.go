package rules

import (
	"strings"
)

// tokenKind is what a token of a path is; operators are their own character.
type tokenKind string

const (
	tokenEnd     tokenKind = ""
	tokenID      tokenKind = "ID"
	tokenNumber  tokenKind = "NUMBER"
	tokenNamed   tokenKind = "NAMED_OPERATOR"
	tokenWhere   tokenKind = "WHERE"
	tokenDescend tokenKind = "DOUBLEDOT"
)

// token is one word of a path.
type token struct {
	kind tokenKind
	text string
	line int
	col  int // characters since the start, or since the last newline
	at   int // characters since the start
}

// lexer splits a path into tokens as jsonpath-rw does.
type lexer struct {
	text    []rune
	at      int
	line    int
	newline int // where the last one was
}

// Quotes, and what the original calls what stands between them.
var quotes = map[rune]struct {
	kind tokenKind
	name string
}{'\'': {tokenID, "singlequoted field"}, '"': {tokenID, "doublequoted field"}, '`': {tokenNamed, "backquoted operator"}}

// next returns the next token; the last has tokenEnd.
func (l *lexer) next() (token, error) {
	for ; l.at < len(l.text); l.at++ {
		switch r := l.text[l.at]; {
		case r == ' ', r == '\t':
		case r == '\n':
			l.line++
			l.newline = l.at
		default:
			return l.word(r)
		}
	}
	return token{}, nil
}

func (l *lexer) word(r rune) (token, error) {
	switch {
	case startsID(r):
		t := l.take(tokenID, func(r rune) bool { return startsID(r) || r == '-' || '0' <= r && r <= '9' })
		if t.text == "where" {
			t.kind = tokenWhere
		}
		return t, nil
	case isASCIIDigit(r), r == '-' && l.at+1 < len(l.text) && isASCIIDigit(l.text[l.at+1]):
		return l.take(tokenNumber, isASCIIDigit), nil
	case quotes[r].kind != "":
		return l.quoted(r)
	case r == '.' && l.at+1 < len(l.text) && l.text[l.at+1] == '.':
		l.at++
		t := l.token(tokenDescend, "..")
		t.col, t.at = t.col-1, t.at-1
		l.at++
		return t, nil
	case strings.ContainsRune("*.[]()$,:|&", r):
		t := l.token(tokenKind(r), string(r))
		l.at++
		return t, nil
	}
	return token{}, l.errorf("", r)
}

func startsID(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_' || r == '@'
}

func isASCIIDigit(r rune) bool { return '0' <= r && r <= '9' }

// take reads the first character whatever it is, and more while they belong.
func (l *lexer) take(kind tokenKind, belongs func(rune) bool) token {
	t := l.token(kind, "")
	from := l.at
	for l.at++; l.at < len(l.text) && belongs(l.text[l.at]); l.at++ {
	}
	t.text = string(l.text[from:l.at])
	return t
}

// quoted reads to the closing quote, where the token stands for messages.
func (l *lexer) quoted(mark rune) (token, error) {
	var content []rune
	for l.at++; l.at < len(l.text); l.at++ {
		switch r := l.text[l.at]; {
		case r == mark:
			t := l.token(quotes[mark].kind, string(content))
			l.at++
			return t, nil
		case r == '\\' && l.at+1 < len(l.text) && l.text[l.at+1] != '\n':
			l.at++
			content = append(content, l.text[l.at])
		case r == '\\':
			return token{}, l.errorf(" while lexing "+quotes[mark].name, r)
		default:
			content = append(content, r)
		}
	}
	return token{}, invalidf("Unexpected EOF in string literal or identifier")
}

func (l *lexer) token(kind tokenKind, text string) token {
	return token{kind: kind, text: text, line: l.line, col: l.at - l.newline, at: l.at}
}

func (l *lexer) errorf(where string, r rune) error {
	return invalidf("Error on line %d, col %d%s: Unexpected character: %c ", l.line, l.at-l.newline, where, r)
}
