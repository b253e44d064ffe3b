package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maintainer signs the entries of both changelogs.
const maintainer = "The Trivet authors <trivet-ha@users.noreply.github.com>"

// section is what CHANGELOG.md says of one release.
type section struct {
	version string // "v0.1.0"; "" for what is unreleased
	date    time.Time
	topics  []topic
}

// topic is a paragraph and the list below it.
type topic struct {
	title   string // one sentence, or several
	changes []string
}

// parseChangelog reads CHANGELOG.md: sections "## Unreleased" and "## v0.1.0,
// 2026-11-21", in which paragraphs stand before lists.
func parseChangelog(text string) (sections []section, err error) {
	heading := regexp.MustCompile(`^(?:Unreleased|(v[0-9][0-9.]*), ([0-9]{4}-[0-9]{2}-[0-9]{2}))$`)
	for _, part := range strings.Split("\n"+text, "\n## ")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		found := heading.FindStringSubmatch(title)
		if found == nil {
			return nil, fmt.Errorf("CHANGELOG.md: the heading %q is neither Unreleased nor a version and a date", title)
		}
		s := section{version: found[1], topics: topicsOf(body)}
		if s.version != "" {
			if s.date, err = time.Parse(time.DateOnly, found[2]); err != nil {
				return nil, fmt.Errorf("CHANGELOG.md: date of %s: %w", s.version, err)
			}
		}
		if len(s.topics) > 0 {
			sections = append(sections, s)
		}
	}
	if len(sections) == 0 {
		return nil, errors.New("CHANGELOG.md has no section")
	}
	return sections, nil
}

// topicsOf cuts the body of a section. A change may have several lines.
func topicsOf(body string) (topics []topic) {
	for block := range strings.SplitSeq(body, "\n\n") {
		block = strings.Trim(block, "\n")
		switch {
		case block == "":
		case !strings.HasPrefix(block, "- "):
			topics = append(topics, topic{title: strings.Join(strings.Fields(strings.TrimLeft(block, "#")), " ")})
		default:
			if len(topics) == 0 {
				topics = append(topics, topic{})
			}
			last := &topics[len(topics)-1]
			for change := range strings.SplitSeq("\n"+block, "\n- ") {
				if text := strings.Join(strings.Fields(change), " "); text != "" {
					last.changes = append(last.changes, text)
				}
			}
		}
	}
	return topics
}

// named gives the newest section the version and time of the package, and the
// others the versions of theirs.
func named(sections []section, version string, at time.Time) []section {
	out := slices.Clone(sections)
	for i := range out {
		out[i].version = strings.TrimPrefix(out[i].version, "v")
	}
	out[0].version, out[0].date = version, at
	return out
}

// debianChangelog writes the sections as deb-changelog(5) has them; version and
// at are the package's.
func debianChangelog(sections []section, version string, at time.Time) string {
	var b strings.Builder
	for _, s := range named(sections, version, at) {
		fmt.Fprintf(&b, "trivet (%s) stable; urgency=medium\n", s.version)
		for _, t := range s.topics {
			b.WriteByte('\n')
			if t.title != "" {
				b.WriteString(wrapped("  [ ", "    ", t.title+" ]"))
			}
			for _, change := range t.changes {
				b.WriteString(wrapped("  * ", "    ", change))
			}
		}
		fmt.Fprintf(&b, "\n -- %s  %s\n\n", maintainer, s.date.Format(time.RFC1123Z))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// changelogColumns is how long a line may be; lintian complains from 81 on.
const changelogColumns = 79

// wrapped breaks text into lines that begin with first, the others with rest.
func wrapped(first, rest, text string) string {
	var b strings.Builder
	line := first
	for i, word := range strings.Fields(text) {
		if i > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > changelogColumns {
			b.WriteString(line + "\n")
			line = rest + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
	return b.String()
}

// entry is a section as nfpm reads it for %changelog, in the words of its
// library chglog.
type entry struct {
	Version  string    `yaml:"semver"`
	Date     time.Time `yaml:"date"`
	Packager string    `yaml:"packager"`
	Changes  []note    `yaml:"changes"`
}

// rpmRelease is what nfpm adds to the version of an .rpm; rpmlint compares.
const rpmRelease = "-1"

type note struct {
	Note string `yaml:"note"`
}

// rpmChangelog writes the sections for nfpm; version and at are the package's.
func rpmChangelog(sections []section, version string, at time.Time) ([]byte, error) {
	var entries []entry
	for _, s := range named(sections, version, at) {
		e := entry{Version: s.version + rpmRelease, Date: s.date, Packager: maintainer}
		for _, t := range s.topics {
			for _, change := range t.changes {
				lines := strings.TrimSuffix(wrapped("", "  ", change), "\n")
				e.Changes = append(e.Changes, note{lines})
			}
		}
		entries = append(entries, e)
	}
	text, err := yaml.Marshal(entries)
	if err != nil {
		return nil, fmt.Errorf("encode the changelog for nfpm: %w", err)
	}
	return text, nil
}
