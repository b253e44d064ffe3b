package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/trivet-ha/trivet/fsm"
)

func (p *program) snapshotCommand() *cobra.Command {
	save := &cobra.Command{
		Use:   "save FILE",
		Short: "Write the whole state to a file; it holds the cluster's keys",
		Long: "Write the whole state of the cluster to a file, as a backup. It holds the cluster's keys: whoever has it can make peers.\n" +
			"It needs a leader. 'trivet snapshot inspect' verifies it.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return p.saveSnapshot(c.Context(), args[0]) },
	}
	restore := &cobra.Command{
		Use:   "restore FILE",
		Short: "Replace the state of the whole cluster; run it on the leader",
		Long: "Replace what the whole cluster knows by what a snapshot holds; run it on the leader. Members and keys stay those of this cluster.\n" +
			"Every token, lease and join token granted before, in either history, is void afterwards.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return p.restoreSnapshot(c.Context(), args[0]) },
	}
	inspect := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Verify a snapshot and say what is in it; no secrets",
		Long:  "Verify a snapshot file and say what is in it, without secrets. It asks no peer.",
		Args:  cobra.ExactArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return p.inspectSnapshot(args[0]) },
	}
	return group("snapshot", "Save, restore and inspect the whole state", save, restore, inspect)
}

func (p *program) saveSnapshot(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotLimit)
	defer cancel()
	peer := p.peer().within(snapshotLimit)
	resp, err := peer.do(ctx, "GET", "/v1/snapshot", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	state, err := copyVerified(tmp, resp.Body)
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("snapshot: %w", err), os.Remove(tmp.Name()))
	}
	p.say("the state up to log index %d is in %s; it holds the cluster's keys, keep it safe", state.View().Index(), path)
	return nil
}

// copyVerified writes what it reads and reads what it writes: a file that
// exists is whole.
func copyVerified(w io.Writer, r io.Reader) (*fsm.State, error) {
	return fsm.Read(io.TeeReader(r, w))
}

// openSnapshot reads and verifies a file and returns it, rewound.
func openSnapshot(path string) (*os.File, *fsm.State, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, usage("snapshot: %w", err)
	}
	state, err := fsm.Read(f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, nil, errors.Join(fail(ExitUsage, "nothing was changed; take another snapshot", "%s: %w", path, err), f.Close())
	}
	return f, state, nil
}

func (p *program) restoreSnapshot(ctx context.Context, path string) error {
	f, state, err := openSnapshot(path)
	if err != nil {
		return err
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(ctx, snapshotLimit)
	defer cancel()
	resp, err := p.peer().within(snapshotLimit).do(ctx, "PUT", "/v1/snapshot", f)
	if err != nil {
		return err
	}
	p.say("the state of log index %d is restored; whatever was granted before is void", state.View().Index())
	return resp.Body.Close()
}

// content is what a snapshot holds, without secrets.
type content struct {
	Cluster     string `json:"cluster_id"`
	Incarnation uint64 `json:"incarnation"`
	Index       uint64 `json:"applied_index"`
	Base        string `json:"token_base"`
	Token       string `json:"token"` // of the newest leadership
	LogVersion  int    `json:"log_version"`
	Members     int    `json:"members"`
	Settings    int    `json:"settings"`
	Hash        string `json:"hash"`
}

func (p *program) inspectSnapshot(path string) error {
	f, state, err := openSnapshot(path)
	if err != nil {
		return err
	}
	defer f.Close()
	v := state.View()
	out := content{
		Cluster: v.ClusterID(), Incarnation: v.Incarnation(), Index: v.Index(), Base: fmt.Sprint(v.Base()),
		Token: v.Floor().String(), LogVersion: v.ClusterVersion(), Members: len(v.Members()), Settings: len(v.Settings()),
		Hash: fmt.Sprintf("%x", v.Hash()),
	}
	if p.format == "json" || p.format == "yaml" {
		return document(p.out, p.format, out)
	}
	fmt.Fprintf(p.out, "cluster      %s\nincarnation  %d\nindex        %d\ntoken base   %s\ntoken        %s\nlog version  %d\nmembers      %d\nsettings     %d\nhash         %s\n",
		out.Cluster, out.Incarnation, out.Index, out.Base, out.Token, out.LogVersion, out.Members, out.Settings, out.Hash)
	return nil
}
