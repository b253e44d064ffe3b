package main

import (
	"fmt"
	"strings"
	"time"
)

// packageVersion turns the version of a Go module into one that dpkg and rpm
// sort alike: what semver calls a pre-release comes before the release, which
// both say with a tilde, and neither takes a hyphen. The go command counts the
// commits after v0.1.0 as pre-releases of v0.1.1, so they sort between the two.
func packageVersion(version string) string {
	number, pre, found := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	if !found {
		return number
	}
	return number + "~" + strings.ReplaceAll(pre, "-", ".")
}

// debianChangelog is the one entry that Debian's tools expect; what changed is
// told in CHANGELOG.md, for people.
func debianChangelog(version string, at time.Time) string {
	return fmt.Sprintf("trivet (%s) stable; urgency=medium\n\n"+
		"  * See https://github.com/trivet-ha/trivet/blob/main/CHANGELOG.md\n\n"+
		" -- The Trivet authors <trivet-ha@users.noreply.github.com>  %s\n", version, at.Format(time.RFC1123Z))
}
