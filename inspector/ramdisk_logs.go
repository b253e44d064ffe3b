package inspector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/document"
)

// LogKeeper keeps what ramdisks log. Its methods are called concurrently.
type LogKeeper interface {
	// Wants reports whether logs are kept of an introspection that failed, or of
	// one that did not.
	Wants(failed bool) bool
	// Keep stores logs and says where. An error loses the logs and nothing else.
	Keep(logs RamdiskLogs) (path string, err error)
}

// RamdiskLogs is what came with a callback.
type RamdiskLogs struct {
	Node   string // "" if it is not known
	MAC    string // of the interface that booted, "" likewise
	BMC    string // address, "" likewise
	Base64 string // compressed archive
}

// takeLogs takes the logs out of a document: they are never stored with the data
// (docs/contract.md#callback). It returns them if they are wanted; what is no text is nothing.
func takeLogs(d *Document, wanted bool) (logs RamdiskLogs) {
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
	logs.MAC, _ = CanonicalMAC(booted)
	v4, v6 := BMCOf(d, inventoryOf(d))
	if addresses := addAddress(addAddress(nil, v4), v6); len(addresses) > 0 {
		logs.BMC = addresses[0]
	}
	return logs
}

// logIntake keeps what came with callbacks.
type logIntake struct {
	o       *ServiceOptions
	limited *slog.Logger
}

// keep keeps the logs of a callback, if they are wanted, on this peer, and
// notes which one that is.
func (l *logIntake) keep(ctx context.Context, keeper LogKeeper, node string, logs RamdiskLogs, why error) {
	var said *Refusal
	failed := errors.As(why, &said) && said.Status != http.StatusServiceUnavailable // else it is repeated, logs and all
	if keeper == nil || why != nil && !failed || !keeper.Wants(failed) {
		return
	}
	l.store(ctx, keeper, node, logs)
}

// store stores logs that are wanted.
func (l *logIntake) store(ctx context.Context, keeper LogKeeper, node string, logs RamdiskLogs) {
	if logs.Base64 == "" {
		l.o.Logger.Debug("ramdisk sent no logs", "node", node)
		return
	}
	logs.Node = node
	path, err := keeper.Keep(logs)
	if err == nil && node != "" {
		l.o.Logger.Info("ramdisk logs stored", "node", node, "file", path)
		err = l.note(ctx, node, path)
	}
	switch {
	case err == nil:
	case node == "": // any client may send such logs
		l.limited.Warn("store ramdisk logs of unknown node failed", "err", err)
	default:
		l.o.Logger.Warn("store ramdisk logs failed", "node", node, "err", err)
	}
}

// KeptLogs says where the logs of an introspection's ramdisk are.
type KeptLogs struct {
	Node  string        `json:"node"`
	Begun fencing.Token `json:"begun"` // which introspection of the node it was
	Peer  string        `json:"peer"`
	Path  string        `json:"path"`
}

// String names the peer and the file on it.
func (k KeptLogs) String() string { return k.Peer + ":" + k.Path }

// Where logs are is kept in a few settings, each for its share of the nodes, the
// newest first: so it survives a failover, and what it takes is bounded. Two
// peers that write the same one at once may lose the note of one of them, and
// nothing else.
const (
	logSettings    = 64
	logSettingSize = 4096 // bytes, as much as a setting takes
)

func logSetting(node string) string {
	sum := fnv.New32a()
	sum.Write([]byte(node)) // never fails
	return fmt.Sprintf("inspection.ramdisk-logs.%02d", sum.Sum32()%logSettings)
}

// note writes down where the logs of a node are.
func (l *logIntake) note(ctx context.Context, node, path string) error {
	v := l.o.Log.View()
	rec, ok := v.Record(node)
	if !ok {
		return nil
	}
	notes := slices.DeleteFunc(logNotes(v, node), func(k KeptLogs) bool { return k.Node == node })
	notes = slices.Insert(notes, 0, KeptLogs{Node: node, Begun: rec.Begun, Peer: l.o.Peer, Path: path})
	value, err := json.Marshal(notes)
	for err == nil && len(value) > logSettingSize {
		notes = notes[:len(notes)-1]
		value, err = json.Marshal(notes)
	}
	if err != nil || len(notes) == 0 {
		return err
	}
	res, err := l.o.Do.Do(ctx, "", fsm.PutSetting{Key: logSetting(node), Value: string(value)})
	return errors.Join(err, res.Err())
}

func logNotes(v fsm.View, node string) (notes []KeptLogs) {
	setting, ok := v.Setting(logSetting(node))
	if !ok || json.Unmarshal([]byte(setting.Value), &notes) != nil {
		return nil
	}
	return notes
}

// Logs says where the logs of an introspection's ramdisk are kept, as far as
// this peer knows.
func (s *Service) Logs(rec introspection.Record) (KeptLogs, bool) {
	for _, k := range logNotes(s.o.Log.View(), rec.Node) {
		if k.Node == rec.Node && k.Begun == rec.Begun {
			return k, true
		}
	}
	return KeptLogs{}, false
}
