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
	for _, s := range Sections() {
		writeSection(&b, s, values)
	}
	return b.Bytes(), nil
}

func writeSection(b *bytes.Buffer, s Section, values map[string]string) {
	var options []Option
	for _, o := range table {
		if section, _ := split(o.Key); section == s.Name && o.AliasOf == "" {
			options = append(options, o)
		}
	}
	indent := strings.Repeat("  ", strings.Count(s.Name, "."))
	fmt.Fprintf(b, "\n%s# %s\n", indent, s.Help)
	switch _, name := split(s.Name); {
	case s.Name == "":
	case len(options) == 0:
		fmt.Fprintf(b, "%s%s: {}\n", indent, name)
	default:
		fmt.Fprintf(b, "%s%s:\n", indent, name)
		indent += "  "
	}
	for _, o := range options {
		help := o.Help
		if o.Bounds() != "" {
			help += " Allowed: " + o.Bounds() + "."
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
}

// yaml returns the value as YAML on one line. The text was accepted by parse.
func (o Option) yaml(text string) string {
	switch o.field(new(Config)).(type) {
	case *[]string:
		items := parseList(text)
		for i, item := range items {
			if items[i] = quote(item); strings.ContainsAny(item, "[]{},") { // which end an item or a list that stands plain
				items[i] = fmt.Sprintf("%q", item)
			}
		}
		return "[" + strings.Join(items, ", ") + "]"
	case *string, *Secret:
		return quote(text)
	}
	return text
}

// quote writes text as YAML would, in quotes only where it must, and besides
// where it begins with a colon, which looks like a slip. Rules keep line breaks
// out of values.
func quote(text string) string {
	out, err := yaml.Marshal(text)
	if plain := strings.TrimSuffix(string(out), "\n"); err == nil && !strings.Contains(plain, "\n") && plain[0] != ':' {
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
