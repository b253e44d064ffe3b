package config

import (
	"bytes"
	"fmt"
	"strings"
)

// Minimal returns a trivet.yaml that holds values (key → value as in a variable)
// and nothing else, in the order of the template. It refuses values that [Load]
// would refuse.
func Minimal(values map[string]string) ([]byte, error) {
	if _, err := Load(Sources{Flags: values}); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	var b bytes.Buffer
	begun := make(map[string]bool)
	for _, s := range Sections() {
		for _, o := range table {
			section, name := split(o.Key)
			value, given := values[o.Key]
			if section != s.Name || !given {
				continue
			}
			indent := writeSections(&b, section, begun)
			fmt.Fprintf(&b, "%s%s: %s\n", indent, name, o.yaml(value))
		}
	}
	return b.Bytes(), nil
}

// writeSections writes the names of a section and those around it, unless they are
// there, and returns what its keys are indented with.
func writeSections(b *bytes.Buffer, section string, begun map[string]bool) (indent string) {
	if section == "" {
		return ""
	}
	outer, name := split(section)
	if outer != "" {
		writeSections(b, outer, begun)
	}
	depth := strings.Count(section, ".")
	if !begun[section] {
		begun[section] = true
		fmt.Fprintf(b, "%s%s:\n", strings.Repeat("  ", depth), name)
	}
	return strings.Repeat("  ", depth+1)
}
