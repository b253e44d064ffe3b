package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLicensed(t *testing.T) {
	apache, err := os.ReadFile("../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		files map[string]string
		spdx  string // "": refused
		texts int
	}{
		"one": {map[string]string{"LICENSE": string(apache), "main.go": "package x"}, "Apache-2.0", 1},
		"with a notice": {map[string]string{"LICENSE.txt": string(apache), "NOTICE": "By A.", "PATENTS": "None."},
			"Apache-2.0", 3},
		"none":              {map[string]string{"README": "Apache-2.0"}, "", 0},
		"a notice alone":    {map[string]string{"NOTICE": string(apache)}, "", 0},
		"words of no known": {map[string]string{"LICENSE": "You may look at it on Sundays."}, "", 0},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := licensed("example.com/m", "v1.0.0", dir)
		if (err != nil) != (c.spdx == "") || got.spdx != c.spdx {
			t.Errorf("%s: %q, %v; want %q", name, got.spdx, err, c.spdx)
		}
		if err == nil && len(got.texts) != c.texts {
			t.Errorf("%s: %d texts, want %d", name, len(got.texts), c.texts)
		}
	}
}

func TestThirdParty(t *testing.T) {
	text := string(thirdParty("trivet", []linked{
		{"example.com/a", "v1.0.0", "MIT", []string{"text one\n"}},
		{"example.com/b", "v1.1.0", "MIT AND ISC", []string{"text one\n", "text two\r\n"}},
	}))
	for _, part := range []string{"The program trivet is linked", "  example.com/b v1.1.0: MIT AND ISC\n",
		"---\nexample.com/a v1.0.0\nexample.com/b v1.1.0\n\ntext one\n", "---\nexample.com/b v1.1.0\n\ntext two\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("it lacks %q:\n%s", part, text)
		}
	}
	if strings.Count(text, "text one") != 1 {
		t.Errorf("a text stands there twice:\n%s", text)
	}
}

// TestLinksOfPages: each relative link of a packaged page leads to a packaged
// page, and no page is left out.
func TestLinksOfPages(t *testing.T) {
	dir := t.TempDir()
	if err := writePages("..", dir); err != nil {
		t.Fatal(err)
	}
	links := 0
	written, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil || len(written) < 20 {
		t.Fatalf("%d pages, %v", len(written), err)
	}
	for _, page := range written {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range linkTarget.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(link[1], ":") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(dir, link[1])); err != nil {
				t.Errorf("%s leads to %s, which is not packaged", filepath.Base(page), link[1])
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were found", links)
	}
	names := map[string]string{"README.md": introduction, "docs/lease.md": "lease.md"}
	for link, want := range map[string]string{
		"[x](../README.md#a)":      "[x](introduction.md#a)",
		"[x](lease.md)":            "[x](lease.md)",
		"[x](../client/lease)":     "[x](" + sourceURL + "client/lease)",
		"[x](#here)":               "[x](#here)",
		"[x](https://example.com)": "[x](https://example.com)",
	} {
		if got := relinked(link, "docs/elector.md", names); got != want {
			t.Errorf("%s became %s, want %s", link, got, want)
		}
	}
}
