package config

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unreadable finds the first character that no YAML file may hold. The parser
// would refuse it too, without a line.
func unreadable(text []byte) (line int, f *fault) {
	line = 1
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return line, &fault{"is not UTF-8", "save the file in that encoding"}
		case r == '\n':
			line++
		case r < ' ' && r != '\t' && r != '\r', r >= 0x7f && r < 0xa0 && r != 0x85:
			return line, &fault{fmt.Sprintf("holds the control character %U", r), "remove it"}
		}
		i += size
	}
	return 0, nil
}

// syntaxFault takes the place out of the parser's message, and says what people
// most often need to be told instead. It repeats nothing of the file: a password
// that begins with * is an alias to the parser, which would quote it.
func syntaxFault(err error, text []byte) (line int, f *fault) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line = 1 // the parser leaves this line out
	if digits, tail, ok := strings.Cut(strings.TrimPrefix(message, "line "), ": "); ok {
		if n, err := strconv.Atoi(digits); err == nil {
			line, message = n, tail
		}
	}
	lines := bytes.Split(text, []byte("\n"))
	// A section in brackets is a list to YAML, and what follows a second document.
	section, entry := regexp.MustCompile(`^\[[\w. -]+\]\s*$`), regexp.MustCompile(`^[\w.-]+\s*=`)
	if at := slices.IndexFunc(lines, section.Match); at >= 0 && slices.ContainsFunc(lines, entry.Match) {
		return at + 1, &fault{"is a section of an INI file, not YAML",
			"an inspector.conf of ironic-inspector is translated by 'trivet-import config FILE'; else write SECTION: and KEY: VALUE lines below it"}
	}
	if name := regexp.MustCompile(`^unknown anchor '(.*)' referenced$`).FindStringSubmatch(message); name != nil {
		for i, l := range lines {
			if bytes.Contains(l, []byte("*"+name[1])) {
				line = i + 1
				break
			}
		}
		return line, &fault{"the word behind a * is an alias of nothing", "put text that begins with * in quotes"}
	}
	for i := max(0, line-2); i < min(line+1, len(lines)); i++ { // the parser is off by one at times
		if trimmed := bytes.TrimLeft(lines[i], " "); len(trimmed) > 0 && trimmed[0] == '\t' {
			return i + 1, &fault{"a tab cannot indent a line", "indent with blanks"}
		}
	}
	if strings.ContainsAny(message, "'\"`") {
		return line, &fault{"is not YAML", "put text that YAML could take for something else in quotes"}
	}
	return line, &fault{"is not YAML: " + message, ""}
}
