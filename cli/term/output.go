package term

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Formats are the values of -o.
var Formats = []string{"table", "wide", "json", "yaml", "name"}

// Show prints v as JSON or YAML, with the field names of the API, or for people what
// table is:
//
//   - a slice of structs is a table, with a column for each field, whose title is the
//     field's name in words. The tag col:"wide" has it shown with -o wide alone; that
//     of col:"name" is no column, but what -o name prints instead of the first one;
//   - a struct is a line for each field;
//   - a func() error prints what it likes, and Text too, which has names for -o name.
//
// A cell that is empty is shown as "-".
func (t *Terminal) Show(v, table any) error {
	if t.Format == "json" || t.Format == "yaml" {
		if list := reflect.ValueOf(v); list.Kind() == reflect.Slice && list.IsNil() {
			v = []any{} // an empty list, not null
		}
		return t.document(v)
	}
	switch table := table.(type) {
	case func() error:
		return table()
	case Text:
		if t.Format == "name" {
			return t.printNames(table.Names)
		}
		return table.Print()
	}
	if of := reflect.ValueOf(table); of.Kind() == reflect.Struct {
		return t.facts(of)
	}
	return t.Table(table)
}

// Table prints a slice of structs as Show does, as a table in every format.
func (t *Terminal) Table(rows any) error {
	of := reflect.ValueOf(rows)
	var names []string
	var lines [][]string
	fields, name := columns(of.Type().Elem(), t.Format == "wide")
	lines = append(lines, Each(fields, func(at int) string { return title(of.Type().Elem().Field(at).Name) }))
	for _, row := range of.Seq2() {
		lines = append(lines, Each(fields, func(at int) string { return cell(row.Field(at)) }))
		names = append(names, cell(row.Field(name)))
	}
	if t.Format == "name" {
		return t.printNames(names)
	}
	return t.print(Aligned(lines))
}

// columns are the fields of a row that are shown, and the one that names it.
func columns(row reflect.Type, wide bool) (shown []int, name int) {
	for at := range row.NumField() {
		switch row.Field(at).Tag.Get("col") {
		case "name":
			name = at
		case "wide":
			if wide {
				shown = append(shown, at)
			}
		default:
			shown = append(shown, at)
		}
	}
	return shown, name
}

// title is the name of a field in words: LOG VERSION of LogVersion, API of API.
func title(field string) string {
	var out strings.Builder
	letters := []rune(field)
	for i, r := range letters {
		lower := func(i int) bool { return i < len(letters) && unicode.IsLower(letters[i]) }
		if i > 0 && unicode.IsUpper(r) && (lower(i-1) || lower(i+1)) {
			out.WriteByte(' ')
		}
		out.WriteRune(unicode.ToUpper(r))
	}
	return out.String()
}

// cell is a value for a reader.
func cell(v reflect.Value) string {
	switch v := v.Interface().(type) {
	case bool:
		return YesNo(v)
	case []string:
		return Dash(strings.Join(v, ", "))
	default:
		return Dash(fmt.Sprint(v))
	}
}

// facts prints one thing, a line for each of its fields. The first names it.
func (t *Terminal) facts(of reflect.Value) error {
	fields, name := columns(of.Type(), t.Format == "wide")
	if t.Format == "name" {
		return t.print(cell(of.Field(name)) + "\n")
	}
	var lines [][]string
	for _, at := range fields {
		lines = append(lines, []string{strings.ToLower(title(of.Type().Field(at).Name)), cell(of.Field(at))})
	}
	return t.print(Aligned(lines))
}

// Text is what a function prints, and what -o name does instead.
type Text struct {
	Names []string
	Print func() error
}

// printNames prints what -o name shows: a name on each line.
func (t *Terminal) printNames(names []string) error {
	return t.print(strings.Join(Each(names, func(name string) string { return name + "\n" }), ""))
}

func (t *Terminal) print(text string) error {
	if _, err := io.WriteString(t.Out, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// Aligned writes rows of cells, each column as wide as its widest cell, and a gap.
func Aligned(lines [][]string) string {
	const gap = 2 // columns
	var widths []int
	for _, cells := range lines {
		widths = append(widths, make([]int, max(len(cells)-len(widths), 0))...)
		for i, cell := range cells {
			widths[i] = max(widths[i], visibleWidth(cell))
		}
	}
	var out strings.Builder
	for _, cells := range lines {
		for i, cell := range cells {
			out.WriteString(cell)
			if i < len(cells)-1 {
				out.WriteString(strings.Repeat(" ", widths[i]-visibleWidth(cell)+gap))
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// Fields prints one thing by the names of its fields in JSON: a line for each, or
// the document.
func (t *Terminal) Fields(name string, fields []string, values map[string]any) error {
	type row struct {
		Name  string `col:"name"`
		Field string
		Value string
	}
	rows := Each(fields, func(field string) row { return row{name, field, textOf(values[field])} })
	if t.Format == "name" {
		rows = rows[:1]
	}
	return t.Show(values, rows)
}

// textOf prints a value of JSON as a cell of a table.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		return Dash(Printable(v))
	case []any:
		if slices.ContainsFunc(v, isComposite) {
			break
		}
		return Dash(strings.Join(Each(v, textOf), ", "))
	}
	text, err := json.Marshal(v)
	if err != nil {
		return Printable(fmt.Sprint(v)) // what was decoded encodes again
	}
	return Printable(string(text))
}

func isComposite(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return true
	}
	return false
}

// Each makes the rows of a table.
func Each[T, R any](all []T, row func(T) R) []R {
	rows := make([]R, len(all))
	for i, one := range all {
		rows[i] = row(one)
	}
	return rows
}

// Escaped writes each character of JSON that steers a terminal as an escape, which means
// the same: what machines and callers wrote is printed, too. Such characters stand in
// strings alone.
func Escaped(text []byte) []byte {
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

// document prints one value as JSON or YAML.
func (t *Terminal) document(v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if t.Format != "yaml" {
		return t.print(string(Escaped(data)) + "\n")
	}
	var n yaml.Node // JSON is the YAML it is, and is written in block style
	escape := func(out []byte, r rune) []byte { return fmt.Appendf(out, `\U%08x`, r) }
	err = yaml.Unmarshal(escapedAs(data, escape), &n) // YAML takes no such character as it is
	if err == nil {
		block(&n)
		data, err = yaml.Marshal(&n)
	}
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	return t.print(strings.TrimSuffix(string(escapedAs(data, escape)), "\n") + "\n")
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

// YesNo is a boolean for a reader.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Dash stands for the empty text.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// errorColumns bounds a message in a table, in columns.
const errorColumns = 60

// Clip prints a message as a cell of a table; -o wide shows all of it.
func (t *Terminal) Clip(text string) string {
	text = Printable(text)
	if t.Format != "wide" {
		text = Clipped(text, errorColumns)
	}
	return Dash(text)
}
