package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/fsm"
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
	b.Version, b.Go = info.Main.Version, info.GoVersion
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// buildVersion is what this peer tells the others.
func buildVersion() string { return thisBuild().Version }

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary and of the log entries it knows",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			switch p.format {
			case "json", "yaml":
				return document(p.out, p.format, b)
			case "name":
				fmt.Fprintln(p.out, b.Version)
				return nil
			}
			fmt.Fprintln(p.out, versionLine(b))
			if b.Revision != "" && p.format == "wide" {
				fmt.Fprintf(p.out, "revision %s, modified: %s\n", b.Revision, yesNo(b.Modified))
			}
			return nil
		},
	}
}

// versionLine is what --version prints.
func versionLine(b build) string {
	return fmt.Sprintf("trivet %s (%s), log entries of version %d", b.Version, b.Go, b.LogVersion)
}
