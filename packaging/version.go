package main

import "strings"

// packageVersion turns the version of a Go module into one that dpkg and rpm
// sort alike: what semver calls a pre-release comes before the release, which
// both say with a tilde, and neither takes a hyphen. A commit after v0.1.0 is
// v0.1.0+TIME.COMMIT, which sorts after it and by time.
func packageVersion(version string) string {
	number, pre, found := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	if !found {
		return number
	}
	return number + "~" + strings.ReplaceAll(pre, "-", ".")
}
