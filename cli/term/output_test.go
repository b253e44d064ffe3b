package term

import (
	"bytes"
	"testing"
	"time"
)

// TestShow: the tags of a row say what is shown in which format.
func TestShow(t *testing.T) {
	type row struct {
		Key        string `col:"name"`
		Name       string
		MayVote    bool
		Age        time.Duration
		LogVersion int      `col:"wide"`
		API        []string `col:"wide"`
	}
	rows := []row{{"prod/w1", "w1", true, time.Minute, 2, []string{"a", "b"}}, {"prod/w22", "w22", false, 0, 11, nil}}
	print := func() error { return nil }
	for _, c := range []struct {
		name, format string
		v, table     any
		want         string
	}{
		{"a table", "table", nil, rows, "NAME  MAY VOTE  AGE\nw1    yes       1m0s\nw22   no        0s\n"},
		{"a wide one", "wide", nil, rows,
			"NAME  MAY VOTE  AGE   LOG VERSION  API\nw1    yes       1m0s  2            a, b\nw22   no        0s    11           -\n"},
		{"its names", "name", nil, rows, "prod/w1\nprod/w22\n"},
		{"an empty table", "table", nil, []row{}, "NAME  MAY VOTE  AGE\n"},
		{"an empty list", "json", []string(nil), rows, "[]\n"},
		{"one thing", "table", nil, rows[1], "name      w22\nmay vote  no\nage       0s\n"},
		{"the name of one thing", "name", nil, struct{ Stage, Missing string }{"settled", ""}, "settled\n"},
		{"the names of a text", "name", nil, Text{[]string{"x", "y"}, print}, "x\ny\n"},
		{"a document", "yaml", map[string]int{"a": 1}, print, "a: 1\n"},
	} {
		var out bytes.Buffer
		if err := (&Terminal{Out: &out, Format: c.format}).Show(c.v, c.table); err != nil || out.String() != c.want {
			t.Errorf("%s: %v\n%s, want\n%s", c.name, err, out.String(), c.want)
		}
	}
}

func TestTitle(t *testing.T) {
	for field, want := range map[string]string{"ID": "ID", "LogVersion": "LOG VERSION", "PXEOpenOnTwo": "PXE OPEN ON TWO",
		"UUID": "UUID", "PXEGap": "PXE GAP", "EndsIn": "ENDS IN"} {
		if got := title(field); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}
