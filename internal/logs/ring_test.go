package logs

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// numbered is a ring with lines of these numbers; each third belongs to req-3, each fifth is a warning.
func numbered(limit, from, to int) *Ring {
	r := NewRing(limit, "boot")
	for n := from; n < to; n++ {
		l := Line{Time: time.Unix(int64(n), 0), Text: fmt.Sprintf("line %d\n", n)}
		if n%3 == 0 {
			l.Request = Request{ID: "req-3", Global: "req-g"}
		}
		if n%5 == 0 {
			l.Level = slog.LevelWarn
		}
		r.Add(l)
	}
	return r
}

func texts(lines []Line) string {
	var out []string
	for _, l := range lines {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(l.Text, "line "), "\n"))
	}
	return strings.Join(out, " ")
}

func TestRingIsBounded(t *testing.T) {
	const limit = 100 << 10
	r := numbered(limit, 0, 10_000)
	if n := len(r.kept); n > limit/lineCost || n < limit/lineCost/2 {
		t.Errorf("ring-is-bounded: %d lines are kept", n)
	}
	r.Add(Line{Text: strings.Repeat("x", 1<<20) + "\n"})
	text := r.Text()
	first, rest, _ := strings.Cut(text, "\n")
	if len(text) > limit || !strings.Contains(text, "line 9999\n") || strings.Contains(text, "line 1\n") ||
		!strings.HasSuffix(text, "… (1032193 bytes more)\n") {
		t.Errorf("ring-is-bounded: %d bytes: %.60s", len(text), text)
	}
	if want := fmt.Sprintf("# %d lines, after ", strings.Count(rest, "\n")); !strings.HasPrefix(first, want) {
		t.Errorf("%s, want %s…", first, want)
	}
}

// A reader that goes on where it was gets each line once, and is told what it missed.
func TestRingIsReadOn(t *testing.T) {
	all := Wanted{Level: slog.LevelDebug, Most: 3, Bytes: 1 << 20}
	r := numbered(1<<20, 0, 10)
	for _, c := range []struct {
		change func(*Wanted)
		want   string
	}{
		{func(*Wanted) {}, "7 8 9"},
		{func(w *Wanted) { w.Request = "req-3" }, "3 6 9"},
		{func(w *Wanted) { w.Request = "req-g" }, "3 6 9"},
		{func(w *Wanted) { w.Request = "req" }, ""},
		{func(w *Wanted) { w.Level = slog.LevelWarn }, "0 5"},
		{func(w *Wanted) { w.Bytes = 8 }, "8 9"}, // the one that goes beyond the bound is the last
	} {
		w := all
		c.change(&w)
		if got, last, missed := r.Newest(w); texts(got) != c.want || last != "boot-10" || missed != 0 {
			t.Errorf("ring-read-on: %+v: %s, %s, %d; want %s", w, texts(got), last, missed, c.want)
		}
	}
	w := all
	w.After = "boot-2"
	var seen []string
	for range 4 {
		lines, last, missed := r.Newest(w)
		if missed != 0 {
			t.Errorf("%d lines are said to be missed", missed)
		}
		seen, w.After = append(seen, texts(lines)), last
	}
	if got := strings.Join(seen, "|"); got != "2 3 4|5 6 7|8 9|" {
		t.Errorf("ring-read-on: %s", got)
	}
}

// The lines of another process, or of one that has gone on too far, are told from the oldest on.
func TestRingTellsOfGaps(t *testing.T) {
	w := Wanted{After: "boot-1", Level: slog.LevelDebug, Most: 1, Bytes: 1 << 20}
	r := numbered(20*(lineCost+8), 0, 100)
	lines, _, missed := r.Newest(w)
	if oldest := r.older; texts(lines) != fmt.Sprint(oldest) || missed != oldest-1 {
		t.Errorf("ring-gap: %s after %d missed, the oldest is %d", texts(lines), missed, oldest)
	}
	for _, after := range []string{"other-99", "boot-101", "boot-x", "boot", "-"} {
		w.After = after
		if lines, _, missed := r.Newest(w); texts(lines) != fmt.Sprint(r.older) || missed != 0 {
			t.Errorf("ring-of-another-process: after %s: %s, %d missed", after, texts(lines), missed)
		}
	}
}

// The request is that of the context, or of the record's own keys.
func TestLineKnowsItsRequest(t *testing.T) {
	rec := slog.NewRecord(time.Unix(1, 0), slog.LevelInfo, "m", 0)
	rec.AddAttrs(slog.String("request_id", "req-own"), slog.String("global_request_id", "req-op"))
	if got := LineOf(context.Background(), Request{}, rec, nil).Request; got != (Request{"req-own", "req-op"}) {
		t.Errorf("line-of-a-request: %v", got)
	}
	ctx := WithRequest(t.Context(), Request{ID: "req-ctx"})
	bare := slog.NewRecord(time.Unix(1, 0), slog.LevelInfo, "m", 0)
	if got := LineOf(context.Background(), Request{ID: "req-made"}, bare, nil).Request; got.ID != "req-made" {
		t.Errorf("line-of-a-request: %v", got)
	}
	if got := LineOf(ctx, Request{ID: "req-made"}, rec, nil).Request; got != (Request{"req-ctx", "req-op"}) {
		t.Errorf("line-of-a-request: %v", got)
	}
}
