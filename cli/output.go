package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

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

func aligned[T any](w io.Writer, wide bool, rows []T, cols []column[T]) error {
	cols = slices.DeleteFunc(slices.Clone(cols), func(c column[T]) bool { return c.wide && !wide })
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	titles := make([]string, len(cols))
	for i, c := range cols {
		titles[i] = c.title
	}
	fmt.Fprintln(tw, strings.Join(titles, "\t"))
	for _, r := range rows {
		cells := make([]string, len(cols))
		for i, c := range cols {
			cells[i] = c.value(r)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

// document prints one value as JSON or YAML, with the field names of the API.
func document(w io.Writer, format string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if format == "yaml" {
		if data, err = asYAML(data); err != nil {
			return fmt.Errorf("encode output: %w", err)
		}
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(data), "\n"))
	return err
}

// asYAML reads JSON as the YAML it is and writes it in block style.
func asYAML(data []byte) ([]byte, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(data, &n); err != nil {
		return nil, err
	}
	block(&n)
	return yaml.Marshal(&n)
}

func block(n *yaml.Node) {
	n.Style = 0
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
