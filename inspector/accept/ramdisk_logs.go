package accept

import (
	"context"
	"log/slog"
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

// store stores logs on this peer, where they are wanted, and notes peer and file in the log, so
// that another leader finds them.
func (l *logIntake) store(ctx context.Context, keeper inspector.LogKeeper, node string, logs inspector.RamdiskLogs) {
	if logs.Base64 == "" {
		l.o.Logger.Debug("ramdisk sent no logs", "node", node)
		return
	}
	logs.Node = node
	path, err := keeper.Keep(ctx, logs)
	if err == nil && node != "" {
		l.o.Logger.Info("ramdisk logs stored", "node", node, "file", path)
		v := l.o.Log.View()
		rec, ok := v.Record(node)
		note := introspection.NoteLogs{Node: node, Begun: rec.Begun,
			Logs: introspection.RamdiskLogs{Peer: l.o.Peer, Path: path}}
		if ok && v.Admits(note) == nil { // else an older peer could not read it
			_, err = inspector.Commit(ctx, l.o.Do, note)
		}
	}
	switch {
	case err == nil:
	case node == "": // any client may send such logs
		l.limited.Warn("store ramdisk logs of unknown node failed", "err", err)
	default:
		l.o.Logger.Warn("store ramdisk logs failed", "node", node, "err", err)
	}
}
