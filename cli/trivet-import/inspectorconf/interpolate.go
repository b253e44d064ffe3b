package inspectorconf

import (
	"fmt"
	"regexp"
	"strings"
)

// Bounds of a value after everything it refers to was put in. Without the first
// a few lines that refer to each other twice would fill the memory.
const (
	maxValue = 64 << 10 // bytes
	maxDepth = 8        // references to references
)

// reference is what oslo.config replaces: $name, ${name}, $section.name and
// ${section.name}; $$ and \$ stand for the dollar sign.
var reference = regexp.MustCompile(`\\\$|\$\$|\$\{([A-Za-z_][A-Za-z0-9_.]*)\}|\$([A-Za-z_][A-Za-z0-9_.]*)`)

// expand puts in what a value of the section refers to.
func (s source) expand(section, text string, depth int) (string, *fault) {
	if !strings.ContainsRune(text, '$') {
		return text, bounded(text)
	}
	var out strings.Builder
	rest := 0
	for _, found := range reference.FindAllStringSubmatchIndex(text, -1) {
		out.WriteString(text[rest:found[0]])
		rest = found[1]
		word := group(text, found, 1) + group(text, found, 2) // one of the two is empty
		value := "$"
		if word != "" {
			var f *fault
			if value, f = s.referred(section, word, depth); f != nil {
				return "", f
			}
		}
		out.WriteString(value)
		if f := bounded(out.String()); f != nil {
			return "", f
		}
	}
	out.WriteString(text[rest:])
	return out.String(), bounded(out.String())
}

func group(text string, found []int, n int) string {
	if found[2*n] < 0 {
		return ""
	}
	return text[found[2*n]:found[2*n+1]]
}

// referred finds what $word stands for: an option of the same section, else of
// [DEFAULT], unless the word names another section.
func (s source) referred(section, word string, depth int) (string, *fault) {
	if depth == maxDepth {
		return "", &fault{fmt.Sprintf("$%s refers to what refers to more, %d times over", word, maxDepth),
			"write the value out"}
	}
	places := []name{{section, word}, {defaultSection, word}}
	if group, key, dotted := strings.Cut(word, "."); dotted {
		places = []name{{sectionName(group), key}}
	}
	for _, n := range places {
		if written := s.file[n]; len(written) > 0 {
			return s.expand(n.section, written[len(written)-1].value, depth+1)
		}
		if preset, known := s.presets[n]; known && preset != "" {
			return s.expand(n.section, preset, depth+1)
		}
	}
	return "", &fault{fmt.Sprintf("$%s refers to no option that this file or ironic-inspector sets", word),
		"write the value out, or $$ for a dollar sign"}
}

func bounded(text string) *fault {
	if len(text) > maxValue {
		return &fault{fmt.Sprintf("the value has more than %d bytes", maxValue), "write a shorter one"}
	}
	return nil
}
