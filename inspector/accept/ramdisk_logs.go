package accept

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
)

// takeLogs takes the logs out of a document: they are never stored with the data
// (docs/contract.md#callback). It returns them if they are wanted, under
// addresses of the machine's BMC; what is no text is nothing.
func takeLogs(d *document.Document, bmc []string, wanted bool) (logs inspector.RamdiskLogs) {
	sent := d.Value(document.Logs)
	d.Delete(document.Logs)
	if !wanted {
		return logs
	}
	if logs.Base64 = sent.Text(); logs.Base64 == "" {
		return logs
	}
	booted := d.Value("boot_interface").Text()
	if _, mac, pxelinux := strings.Cut(booted, "-"); pxelinux {
		booted = strings.ReplaceAll(mac, "-", ":")
	}
	logs.MAC, _ = identify.CanonicalMAC(booted)
	if len(bmc) > 0 {
		logs.BMC = bmc[0]
	}
	return logs
}

// logIntake keeps what came with callbacks.
type logIntake struct {
	o       *Options
	limited *slog.Logger
}

// keepLogs keeps the logs of a callback, if they are wanted, on this peer, and
// notes which one that is.
func (l *logIntake) keepLogs(ctx context.Context, keeper inspector.LogKeeper, node string, logs inspector.RamdiskLogs,
	why error) {
	var said *inspector.Refusal
	failed := errors.As(why, &said) && said.Status != http.StatusServiceUnavailable // else it is repeated, logs and all
	if keeper == nil || why != nil && !failed || !keeper.Wants(failed) {
		return
	}
	l.store(ctx, keeper, node, logs)
}

// store stores logs that are wanted.
func (l *logIntake) store(ctx context.Context, keeper inspector.LogKeeper, node string, logs inspector.RamdiskLogs) {
	if logs.Base64 == "" {
		l.o.Logger.Debug("ramdisk sent no logs", "node", node)
		return
	}
	logs.Node = node
	path, err := keeper.Keep(ctx, logs)
	if err == nil && node != "" {
		l.o.Logger.Info("ramdisk logs stored", "node", node, "file", path)
		err = l.notePlace(ctx, node, path)
	}
	switch {
	case err == nil:
	case node == "": // any client may send such logs
		l.limited.Warn("store ramdisk logs of unknown node failed", "err", err)
	default:
		l.o.Logger.Warn("store ramdisk logs failed", "node", node, "err", err)
	}
}

// notePlace writes down where the logs of a node are, so that it survives a failover.
func (l *logIntake) notePlace(ctx context.Context, node, path string) error {
	v := l.o.Log.View()
	rec, ok := v.Record(node)
	note := introspection.NoteLogs{Node: node, Begun: rec.Begun,
		Logs: introspection.RamdiskLogs{Peer: l.o.Peer, Path: path}}
	if !ok || v.Admits(note) != nil { // an older peer could not read it
		return nil
	}
	_, err := inspector.Commit(ctx, l.o.Do, note)
	return err
}
