package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/fsm"
)

// Snapshot is 'trivet snapshot'.
func Snapshot(t *term.Terminal, peer term.Peer, set *options.Set) *cobra.Command {
	save := &cobra.Command{
		Use:   "save FILE",
		Short: "Write the whole state to a file; it holds the cluster's keys",
		Long: "Write the whole state of the cluster to a file, as a backup. It holds the cluster's keys: any holder of the file can make peers.\n" +
			"It needs a leader. 'trivet snapshot verify' says whether a file can be restored. Backups by the clock: 'backup' in the configuration.",
		Example: "trivet snapshot save /var/backups/trivet.snapshot",
		RunE:    func(c *cobra.Command, args []string) error { return saveSnapshot(c.Context(), t, peer, args[0]) },
	}
	verify := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Say whether snapshots can be restored by this binary; no secrets",
		Long: "Read snapshot files to their end, compare checksums, and examine what is in them, documents too. It asks no peer, shows no secret and needs no\n" +
			"configuration. It exits with 0 if all are good, 8 if one needs a newer trivet, 1 if one is damaged, 2 if one cannot be opened.",
		Example: "trivet snapshot verify /var/backups/trivet.snapshot",
		RunE:    func(_ *cobra.Command, args []string) error { return verifySnapshots(t, args) },
	}
	inspect := &cobra.Command{
		Use:     "inspect FILE",
		Short:   "Verify a snapshot and say what is in it; no secrets",
		Long:    "Verify a snapshot file and say what is in it, without secrets. It asks no peer.",
		Example: "trivet snapshot inspect /var/backups/trivet.snapshot",
		RunE: func(_ *cobra.Command, args []string) error {
			f, state, err := openSnapshot(t, args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			out := contentOf(state.View())
			return t.Show(out, out)
		},
	}
	return term.Group("snapshot", "Save, restore, inspect and verify the whole state", save, restoreCommand(t, set),
		inspect, verify)
}

func saveSnapshot(ctx context.Context, t *term.Terminal, peer term.Peer, path string) error {
	ctx, cancel := context.WithTimeout(ctx, term.SnapshotLimit)
	defer cancel()
	peer = peer.Within(term.SnapshotLimit)
	resp, err := peer.Do(ctx, "GET", "/v1/snapshot", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var state *fsm.State
	err = local.WriteWhole(path, func(f *os.File) (err error) {
		shown, hide := t.ShowBytes("snapshot", resp.Body, 0) // the peer writes it as it goes
		defer hide()
		state, err = fsm.Read(io.TeeReader(shown, f)) // a file that exists is whole
		return err
	})
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	t.Say("the state up to log index %d is in %s; it holds the cluster's keys, keep it safe", state.View().Index(), path)
	return nil
}

// openSnapshot reads and verifies a file and returns it, rewound.
func openSnapshot(t *term.Terminal, path string) (*os.File, *fsm.State, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, term.Usage("snapshot: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(term.Usage("snapshot: %w", err), f.Close())
	}
	shown, hide := t.ShowBytes("verify", f, info.Size())
	state, err := fsm.Read(shown)
	hide()
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	switch {
	case errors.Is(err, fsm.UnknownEntry):
		return nil, nil, errors.Join(
			term.Fail(term.ExitUnknownEntry, "nothing was changed; the file is whole", "%s: %w", path, err), f.Close())
	case err != nil:
		return nil, nil, errors.Join(
			term.Fail(term.ExitUsage, "nothing was changed; take another snapshot, or another copy of this one", "%s: %w", path,
				err), f.Close())
	}
	return f, state, nil
}
