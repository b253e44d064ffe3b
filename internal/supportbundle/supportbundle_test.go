package supportbundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/internal/redact"
)

func TestFilesAreCut(t *testing.T) {
	f := NewFiles(redact.New())
	f.Add("cut", 10, []byte("123456789ö and more"), nil)
	f.JSON("small", 1<<10, map[string]int{"a": 1}, nil)
	f.Add("gone", 1, nil, errors.New("login password=abc failed"))
	got := f.List()
	if !strings.HasPrefix(got[0].Text, "123456789\n… (") || !utf8.ValidString(got[0].Text) ||
		got[1].Text != "{\n  \"a\": 1\n}\n" ||
		got[2].Error != "login password="+redact.Redacted+" failed" {
		t.Errorf("%.200v", got)
	}
}

func TestArchive(t *testing.T) {
	var out, again bytes.Buffer
	wall := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	folders := []Folder{{Files: []File{{Name: "a.txt", Text: "one"}}},
		{Name: "../h 1", Files: []File{{Name: "..", Text: "two"}, {Name: "gone", Error: "no\nanswer"}}}}
	if err := errors.Join(Archive(&out, "trivet-bundle", "title", wall, folders),
		Archive(&again, "trivet-bundle", "title", wall, folders)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Error("twice the same are not the same bytes")
	}
	plain, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for archive := tar.NewReader(plain); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil || h.Mode != 0o600 {
			t.Fatal(h, err)
		}
		got += h.Name + ": " + string(text) + "\n"
	}
	want := "trivet-bundle/INDEX: title\na.txt                    3 bytes\n.._h_1/_                 3 bytes\n.._h_1/gone              missing: no answer\n\ntrivet-bundle/a.txt: one\ntrivet-bundle/.._h_1/_: two\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
