package main

import (
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const changelogText = `# Changelog

Every change.

## Unreleased

First impressions.

- One change whose text is long enough that it has to go on in a second line, as ` + "`code`" + ` shows.
  It goes on here, too.
- Another.

## v0.1.0, 2026-11-21

- The first one.
`

func TestDebianChangelog(t *testing.T) {
	sections, err := parseChangelog(changelogText)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 22, 20, 0, 0, 0, time.UTC)
	got := debianChangelog(sections, "0.1.0+20261122200000.4ac3835abcde", at)
	want := `trivet (0.1.0+20261122200000.4ac3835abcde) stable; urgency=medium

  [ First impressions. ]
  * One change whose text is long enough that it has to go on in a second line,
    as ` + "`code`" + ` shows. It goes on here, too.
  * Another.

 -- The Trivet authors <trivet-ha@users.noreply.github.com>  Sun, 22 Nov 2026 20:00:00 +0000

trivet (0.1.0) stable; urgency=medium

  * The first one.

 -- The Trivet authors <trivet-ha@users.noreply.github.com>  Sat, 21 Nov 2026 00:00:00 +0000
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// ownChangelog is CHANGELOG.md, and its sections.
func ownChangelog(t *testing.T) (text string, sections []section) {
	t.Helper()
	read, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if sections, err = parseChangelog(string(read)); err != nil {
		t.Fatal(err)
	}
	return string(read), sections
}

// TestChangelogIsTaken: all of CHANGELOG.md is in both changelogs, in lines that
// lintian takes.
func TestChangelogIsTaken(t *testing.T) {
	text, sections := ownChangelog(t)
	changes := strings.Count(text, "\n- ")
	debian := debianChangelog(sections, "0.1.0+x", time.Now())
	if n := strings.Count(debian, "\n  * "); n != changes {
		t.Errorf("%d of %d changes are in Debian's", n, changes)
	}
	for line := range strings.Lines(debian) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 ||
			n > 80 && !strings.HasPrefix(line, " -- ") {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
	rpm, err := rpmChangelog(sections, "0.1.0+x", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(rpm), "- note: "); n != changes {
		t.Errorf("%d of %d changes are in rpm's", n, changes)
	}
}

func TestChangelogOfAnotherForm(t *testing.T) {
	for name, text := range map[string]string{
		"no section":   "# Changelog\n",
		"no date":      "## v0.1.0\n\n- x\n",
		"a wrong date": "## v0.1.0, 2026-13-41\n\n- x\n",
		"other words":  "## Next\n\n- x\n",
	} {
		if _, err := parseChangelog(text); err == nil || !strings.Contains(err.Error(), "CHANGELOG.md") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
