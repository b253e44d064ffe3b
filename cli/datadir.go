package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cli/term"
)

func (p *program) dataDirCommand() *cobra.Command {
	var dry bool
	clean := &cobra.Command{
		Use:   "clean",
		Short: "Remove the old states that recover and snapshot restore left",
		Long: "Remove the folders before-recover-DATE, before-restore-DATE and before-rejoin-DATE from the data directory, which hold the state and the keys that this host had before, and print\n" +
			"their paths. The peer may run. With --dry-run nothing is removed.",
		Example: "  trivet datadir clean --dry-run",
	}
	clean.Flags().BoolVar(&dry, "dry-run", false, "only show what would be removed")
	p.set.Flags(clean)
	clean.RunE = func(*cobra.Command, []string) error {
		conf, err := p.set.Load()
		if err != nil {
			return err
		}
		removed, err := datadir.Clean(conf.DataDir, dry)
		for _, path := range removed {
			if _, err := fmt.Fprintln(p.Out, path); err != nil {
				return err
			}
		}
		if err != nil {
			return dirError(err)
		}
		return nil
	}
	return term.Group("datadir", "Remove what foundings left in the data directory", clean)
}

// openDir locks the data directory for a command or the daemon.
func openDir(path string) (*datadir.Dir, error) {
	dir, err := datadir.Open(path)
	if err != nil {
		return nil, dirError(err)
	}
	return dir, nil
}

// dirError gives what went wrong with the data directory its exit code and
// remedy. The error itself names the path.
func dirError(err error) error {
	var corrupt *datadir.CorruptError
	switch {
	case errors.Is(err, datadir.ErrLocked):
		return term.Fail(term.ExitConflict, "stop it first ('systemctl stop trivet'), or name another directory with --data-dir", "%w", err)
	case errors.Is(err, datadir.ErrNoPeer):
		return term.Fail(term.ExitUsage, "'trivet init' founds a cluster here, 'trivet join' makes this host a peer of one; another directory: --data-dir", "%w", err)
	case errors.As(err, &corrupt):
		return term.Fail(term.ExitFailed, "nothing was changed. If the other peers run: 'trivet remove' this one there, move the directory away, 'trivet join' again. "+
			"If none does: bring its backup back", "%w", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return term.Fail(term.ExitFailed, "make room on that disk; nothing acknowledged is lost", "%w", err)
	case errors.Is(err, syscall.EROFS):
		return term.Fail(term.ExitFailed, "mount it writable; after an error of the disk the kernel makes it read-only, see 'dmesg'", "%w", err)
	case errors.Is(err, fs.ErrPermission):
		return term.Fail(term.ExitFailed, "run this as the owner of the directory, or as root", "%w", err)
	default:
		return err
	}
}
