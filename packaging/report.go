package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
)

// report prints the modules that are linked into programs, with their versions and licences.
// One whose licence is not known is an error.
func (r *release) report(ctx context.Context, binaries []string, w io.Writer) error {
	for _, path := range binaries {
		modules, err := r.linkedModules(ctx, path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		fmt.Fprintf(w, "%s links %d modules:\n", filepath.Base(path), len(modules))
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, m := range modules {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", m.path, m.version, m.spdx)
		}
		if err := table.Flush(); err != nil {
			return fmt.Errorf("print the report: %w", err)
		}
	}
	return nil
}
