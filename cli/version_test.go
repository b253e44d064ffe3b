package cli

import (
	"os"
	"regexp"
	"runtime/debug"
	"testing"
)

func TestVersionOf(t *testing.T) {
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "37d3b057d8270123456789"},
		{Key: "vcs.time", Value: "2026-11-21T15:02:46+01:00"}}
	dirty := append(commit[:2:2], debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	for _, c := range []struct {
		settings []debug.BuildSetting
		released bool
		want     string
	}{
		{commit, false, "v0.1.0+20261121140246.37d3b057d827"},
		{dirty, false, "v0.1.0+20261121140246.37d3b057d827.dirty"},
		{nil, false, "v0.1.0+dev"},
		{commit, true, "v0.1.0"},
		{dirty, true, "v0.1.0+dirty"},
		{nil, true, "v0.1.0"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261121140246-37d3b057d827"}, Settings: c.settings}
		if got := versionOf(info, "v0.1.0", c.released); got != c.want {
			t.Errorf("%+v: %s, want %s", c, got, c.want)
		}
	}
}

// TestReleaseIsThatOfTheChangelog: whoever makes a release writes it in both.
func TestReleaseIsThatOfTheChangelog(t *testing.T) {
	text, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1)
	newest := regexp.MustCompile(`(?m)^## (v[0-9.]+), [0-9-]+$`).FindStringSubmatch(string(text))
	if headings == nil || newest == nil {
		t.Fatal("CHANGELOG.md has no release")
	}
	if release != newest[1] {
		t.Errorf("cli/version.go says that the newest release is %s, CHANGELOG.md %s", release, newest[1])
	}
	if unreleased := headings[0][1] == "Unreleased"; released == unreleased {
		t.Errorf("cli/version.go: released is %v, and CHANGELOG.md begins with %q", released, headings[0][1])
	}
}
