package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/servers"
	"github.com/trivet-ha/trivet/cli/term"
)

func introspectionDataSave(t *term.Terminal, f *servers.Flags) *cobra.Command {
	var file string
	var unprocessed, stale bool
	c := &cobra.Command{
		Use:   "save NODE",
		Short: "Write the data of a node's last introspection",
		Long: "Write the JSON document of a node's last introspection, byte for byte as it is stored, to a file or to standard output.\n" +
			"A file appears, or changes, only once all of it was written; its owner alone can read a new one.",
		Example: "trivet introspection data save node-1 --file node-1.json\ntrivet introspection data save --unprocessed node-1",
	}
	c.Flags().StringVar(&file, "file", "-", "where to; - is standard output")
	c.Flags().BoolVar(&unprocessed, "unprocessed", false, "as the ramdisk sent it, before any hook")
	servers.StaleFlag(c, &stale)
	c.RunE = func(c *cobra.Command, args []string) error {
		ref, err := oneNode(t, args[0])
		if err != nil {
			return err
		}
		web, err := f.Reader(stale)
		if err != nil {
			return err
		}
		read := web.Data
		if unprocessed {
			read = web.UnprocessedData
		}
		data, err := read(c.Context(), ref)
		if err != nil {
			return err
		}
		if file == "-" { // the document's line is ended; the file of --file stays as it is stored
			_, err = t.Out.Write(append(bytes.TrimSuffix(data, []byte("\n")), '\n'))
			return err
		}
		if err := writeWhole(file, data); err != nil {
			return fmt.Errorf("save data: %w", err)
		}
		t.Say("the data of %s is in %s, %d bytes", ref, file, len(data))
		return nil
	}
	return c
}

// writeWhole writes a file that has all of data or stays as it was. What is no
// regular file, a pipe or a device, is written into.
func writeWhole(path string, data []byte) error {
	mode := fs.FileMode(0o600)
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return os.WriteFile(path, data, mode)
	case err == nil:
		mode = info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return local.WriteWhole(path, func(f *os.File) error {
		if _, err := f.Write(data); err != nil {
			return err
		}
		return f.Chmod(mode)
	})
}
