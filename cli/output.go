package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// formats are the values of -o.
var formats = []string{"table", "wide", "json", "yaml", "name"}

// column is one column of a table; wide ones show with -o wide alone.
type column[T any] struct {
	title string
	wide  bool
	value func(T) string
}

// table prints rows in the format asked for. name is what -o name prints.
func table[T any](w io.Writer, format string, rows []T, name func(T) string, cols ...column[T]) error {
	switch format {
	case "name":
		for _, r := range rows {
			fmt.Fprintln(w, name(r))
		}
		return nil
	case "table", "wide":
		return aligned(w, format == "wide", rows, cols)
	default:
		if rows == nil {
			rows = []T{} // an empty list, not null
		}
		return document(w, format, rows)
	}
}

// aligned prints a table: each column as wide as its widest cell, and a gap.
func aligned[T any](w io.Writer, wide bool, rows []T, cols []column[T]) error {
	cols = slices.DeleteFunc(slices.Clone(cols), func(c column[T]) bool { return c.wide && !wide })
	lines := make([][]string, len(rows)+1)
	widths := make([]int, len(cols))
	for i := range lines {
		lines[i] = make([]string, len(cols))
		for j, c := range cols {
			lines[i][j] = c.title
			if i > 0 {
				lines[i][j] = c.value(rows[i-1])
			}
			widths[j] = max(widths[j], visibleWidth(lines[i][j]))
		}
	}
	const gap = 2 // columns
	var out strings.Builder
	for _, cells := range lines {
		for j, cell := range cells {
			out.WriteString(cell)
			if j < len(cells)-1 {
				out.WriteString(strings.Repeat(" ", widths[j]-visibleWidth(cell)+gap))
			}
		}
		out.WriteByte('\n')
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	return nil
}

// escaped writes each character of JSON that steers a terminal as an escape, which means
// the same: what machines and callers wrote is printed, too. Such characters stand in
// strings alone.
func escaped(text []byte) []byte {
	return escapedAs(text, func(out []byte, r rune) []byte {
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	})
}

// escapedAs writes escapes; beyond writes that of a character beyond 16 bits, for which
// JSON and YAML differ.
func escapedAs(text []byte, beyond func([]byte, rune) []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case steersNothing(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			out = beyond(out, r)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// steersNothing reports whether a terminal shows a character and does nothing else.
func steersNothing(r rune) bool { return unicode.IsPrint(r) || r == '\n' || r == '\t' }

// document prints one value as JSON or YAML, with the field names of the API.
func document(w io.Writer, format string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if format != "yaml" {
		data = escaped(data)
	} else if data, err = asYAML(data); err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(data), "\n"))
	return err
}

// asYAML reads JSON as the YAML it is and writes it in block style.
func asYAML(data []byte) ([]byte, error) {
	var n yaml.Node
	escape := func(out []byte, r rune) []byte { return fmt.Appendf(out, `\U%08x`, r) }
	if err := yaml.Unmarshal(escapedAs(data, escape), &n); err != nil { // YAML takes no such character as it is
		return nil, err
	}
	block(&n)
	text, err := yaml.Marshal(&n)
	return escapedAs(text, escape), err
}

// block gives a node and all below it the usual style. A text with a character that
// steers a terminal is quoted, so that an escape can stand for it.
func block(n *yaml.Node) {
	n.Style = 0
	if strings.ContainsFunc(n.Value, func(r rune) bool { return !steersNothing(r) }) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		block(c)
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
