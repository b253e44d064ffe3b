package cli

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/fsm"
)

// What this tree is, as CHANGELOG.md has it; a test compares. Git's tags are not
// in every clone, and without them the go command calls every commit v0.0.0.
const (
	release  = "v0.2.0" // the newest release
	released = false    // this tree is that release; false while changes are unreleased
)

// build is what the binary knows of itself.
type build struct {
	Version    string `json:"version"`
	Revision   string `json:"revision,omitempty"`
	Modified   bool   `json:"modified,omitempty"`
	Go         string `json:"go"`
	LogVersion int    `json:"log_version"` // newest kind of log entry that it knows
}

func thisBuild() build {
	b := build{Version: "unknown", LogVersion: fsm.Version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	settings := settingsOf(info)
	b.Version, b.Go = versionOf(info, release, released), info.GoVersion
	b.Revision, b.Modified = settings["vcs.revision"], settings["vcs.modified"] == "true"
	return b
}

func settingsOf(info *debug.BuildInfo) map[string]string {
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	return settings
}

// versionOf returns the version of a build: the release, or the release and the
// commit that was built, with its time, so that later commits sort later. The
// same commit has the same version wherever it is built.
func versionOf(info *debug.BuildInfo, release string, released bool) string {
	settings := settingsOf(info)
	var more []string
	at, err := time.Parse(time.RFC3339, settings["vcs.time"])
	revision := settings["vcs.revision"]
	const shown = 12 // characters of a revision, as in Go's own versions
	switch {
	case released:
	case err != nil || len(revision) < shown:
		more = append(more, "dev") // built without git
	default:
		more = append(more, at.UTC().Format("20060102150405"), revision[:shown])
	}
	if settings["vcs.modified"] == "true" {
		more = append(more, "dirty")
	}
	if len(more) == 0 {
		return release
	}
	return release + "+" + strings.Join(more, ".")
}

// printVersion is 'trivet version' and --version.
func (p *program) printVersion() error {
	b := thisBuild()
	return p.Show(b, term.Text{Names: []string{b.Version}, Print: func() error {
		fmt.Fprintf(p.Out, "trivet %s (%s), log entries of version %d\n", b.Version, b.Go, b.LogVersion)
		if b.Revision != "" && p.Format == "wide" {
			fmt.Fprintf(p.Out, "revision %s, modified: %s\n", b.Revision, term.YesNo(b.Modified))
		}
		return nil
	}})
}
