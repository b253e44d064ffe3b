package msgcheck

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
)

func TestWrong(t *testing.T) {
	attr := func(args ...any) string {
		var b bytes.Buffer
		slog.New(slog.NewTextHandler(&b, nil)).Info("m", args...)
		return b.String()
	}
	for _, text := range []string{
		fmt.Errorf("last: %w", errors.Join()).Error(), "%!d(MISSING)", "%!d(string=a)", "a%!(EXTRA int=1)", "%!(NOVERB)",
		attr("key"), attr(7),
	} {
		if Wrong(text) == "" {
			t.Errorf("%q passes", text)
		}
	}
	for _, text := range []string{"", "100%!", "a%20b%21c", "PATH=%s (%d)", "50 % (of all)"} {
		if wrong := Wrong(text); wrong != "" {
			t.Errorf("%q: %q", text, wrong)
		}
	}
}

func TestWriterFindsWhatIsCutInTwo(t *testing.T) {
	var out bytes.Buffer
	var found []string
	w := Writer(&out, func(wrong string) { found = append(found, wrong) })
	for _, part := range []string{"last: %", "!w", "(<nil>)\n", "last: %!w(<nil>)\n"} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if len(found) != 1 || out.String() != "last: %!w(<nil>)\nlast: %!w(<nil>)\n" {
		t.Errorf("found %q in %q", found, out.String())
	}
}
