package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/servers"
)

func (p *program) introspectionDataSave(f *servers.Flags) *cobra.Command {
	var file string
	var unprocessed, stale bool
	c := &cobra.Command{
		Use:   "save NODE",
		Short: "Write the data of a node's last introspection",
		Long: "Write the JSON document of a node's last introspection, byte for byte as it is stored, to a file or to standard output.\n" +
			"A file appears, or changes, only once all of it was written; its owner alone can read a new one.",
	}
	c.Flags().StringVar(&file, "file", "-", "where to; - is standard output")
	c.Flags().BoolVar(&unprocessed, "unprocessed", false, "as the ramdisk sent it, before any hook")
	servers.StaleFlag(c, &stale)
	c.RunE = func(c *cobra.Command, args []string) error {
		ref, err := p.oneNode(args[0])
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
		if file == "-" {
			return p.printData(data)
		}
		if err := writeWhole(file, data); err != nil {
			return fmt.Errorf("save data: %w", err)
		}
		p.Say("the data of %s is in %s, %d bytes", ref, file, len(data))
		return nil
	}
	return c
}

// printData ends the document's line; the file of --file stays as it is stored.
func (p *program) printData(data []byte) error {
	_, err := p.Out.Write(append(bytes.TrimSuffix(data, []byte("\n")), '\n'))
	return err
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
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
