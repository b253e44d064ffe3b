package config

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// templateWidth is where help text is broken, in bytes.
const templateWidth = 88

// Template returns a commented trivet.yaml: every option with its help and
// bounds, commented out with its default, except those in values (key → value
// as in a variable), which are written. It refuses values that Load would refuse.
func Template(values map[string]string) ([]byte, error) {
	if _, err := Load(Sources{Flags: values}); err != nil {
		return nil, fmt.Errorf("write template: %w", err)
	}
	var b bytes.Buffer
	b.WriteString("# Trivet. Every key has a variable too: api.listen is TRIVET_API_LISTEN.\n" +
		"# A line that begins with # shows the default; take the # away to change it.\n" +
		"# \"trivet config check\" says whether the file will do.\n")
	options := Options()
	for _, s := range Sections() {
		indent := strings.Repeat("  ", strings.Count(s.Name, ".")) // of the section's own name
		fmt.Fprintf(&b, "\n%s# %s\n", indent, s.Help)
		inner := indent
		if s.Name != "" {
			_, name := split(s.Name)
			fmt.Fprintf(&b, "%s%s:\n", indent, name)
			inner += "  "
		}
		for _, o := range options {
			if section, _ := split(o.Key); section == s.Name && o.AliasOf == "" {
				writeOption(&b, inner, o, values)
			}
		}
	}
	return b.Bytes(), nil
}

func writeOption(b *bytes.Buffer, indent string, o Option, values map[string]string) {
	help := o.Help
	if o.Bounds() != "" {
		help += " (" + o.Bounds() + ")"
	}
	for _, line := range wrap(help, templateWidth-len(indent)) {
		fmt.Fprintf(b, "%s# %s\n", indent, line)
	}
	_, name := split(o.Key)
	text, written := values[o.Key]
	mark := ""
	if !written {
		text, mark = o.Default, "#"
	}
	fmt.Fprintf(b, "%s%s%s: %s\n", indent, mark, name, o.yaml(text))
}

// yaml returns the value as YAML on one line. The text was accepted by parse.
func (o Option) yaml(text string) string {
	switch o.field(new(Config)).(type) {
	case *[]string:
		return "[" + strings.Join(parseList(text), ", ") + "]" // names: nothing to quote
	case *string, *Secret:
		return quote(text)
	}
	return text
}

// quote writes text as YAML would: in quotes only where it must. Rules keep
// line breaks out of values.
func quote(text string) string {
	out, err := yaml.Marshal(text)
	if plain := strings.TrimSuffix(string(out), "\n"); err == nil && !strings.Contains(plain, "\n") {
		return plain
	}
	return fmt.Sprintf("%q", text) // YAML reads Go's escapes of what is left
}

// wrap breaks text into lines of at most width bytes, where words allow.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
