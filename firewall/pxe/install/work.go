package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// work is a series of steps that are undone, the last one first, when a later
// one fails.
type work struct {
	h      Host
	report Report
	undo   []step
}

// step takes something back. what names it in errors.
type step struct {
	what string
	do   func(ctx context.Context) error
}

func (w *work) addChange(act, object, note string) {
	w.report.Changes = append(w.report.Changes, Change{act, object, note})
}

func (w *work) undoing(what string, do func(ctx context.Context) error) {
	w.undo = append(w.undo, step{what, do})
}

// rollback takes all steps back, whether or not ctx has ended, and adds to the
// error what could not be taken back.
func (w *work) rollback(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	errs := []error{why}
	for _, s := range slices.Backward(w.undo) {
		if err := s.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("undo: %s: %w", s.what, err))
		}
	}
	if len(errs) == 1 {
		return fmt.Errorf("%w (what was done before is undone)", why)
	}
	return errors.Join(errs...)
}

// mkdir makes a directory and the missing ones above it.
func (w *work) mkdir(name string) error {
	for _, dir := range slices.Backward(w.h.missingDirs(name)) {
		if err := os.Mkdir(w.h.path(dir), 0o755); err != nil {
			return fmt.Errorf("make directory %s: %w", dir, err)
		}
		w.undoing("remove directory "+dir, func(context.Context) error { return os.Remove(w.h.path(dir)) })
		if err := os.Chmod(w.h.path(dir), 0o755); err != nil { // dnsmasq reads it as another user, under any umask
			return fmt.Errorf("make directory %s: %w", dir, err)
		}
		w.addChange("made", dir, "")
	}
	return nil
}

// missingDirs are a directory and those above it that do not exist, the deepest
// first.
func (h Host) missingDirs(name string) (out []string) {
	for ; name != "/" && name != "."; name = filepath.Dir(name) {
		if _, err := os.Stat(h.path(name)); !errors.Is(err, fs.ErrNotExist) {
			return out
		}
		out = append(out, name)
	}
	return out
}

// link makes name a link to target.
func (w *work) link(target, name string) error {
	if err := os.Symlink(target, w.h.path(name)); err != nil {
		return fmt.Errorf("link %s to %s: %w", name, target, err)
	}
	w.undoing("remove link "+name, func(context.Context) error { return os.Remove(w.h.path(name)) })
	w.addChange("linked", name, "to "+target)
	return nil
}

// write replaces a file as a whole.
func (w *work) write(name, text string) error {
	before, err := w.h.readContent(name)
	if err != nil {
		return err
	}
	if err := w.h.replace(name, text); err != nil {
		return err
	}
	w.undoing("restore "+name, func(context.Context) error { return w.h.restoreFile(name, before) })
	w.addChange("wrote", name, "")
	return nil
}

// rename moves a file; act is what is reported of object.
func (w *work) rename(from, to, act, object, note string) error {
	if err := os.Rename(w.h.path(from), w.h.path(to)); err != nil {
		return fmt.Errorf("rename %s to %s: %w", from, to, err)
	}
	w.undoing("rename "+to+" back", func(context.Context) error { return os.Rename(w.h.path(to), w.h.path(from)) })
	w.addChange(act, object, note)
	return nil
}

// remove removes a file, unless it is gone.
func (w *work) remove(name string) error {
	before, err := w.h.readContent(name)
	if err != nil || !before.exists {
		return err
	}
	if err := os.Remove(w.h.path(name)); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	w.undoing("restore "+name, func(context.Context) error { return w.h.restoreFile(name, before) })
	w.addChange("removed", name, "")
	return nil
}

// unlink removes a link, if it still leads to target.
func (w *work) unlink(name, target string) error {
	if to, err := os.Readlink(w.h.path(name)); err != nil || to != target {
		return nil // gone, or another file by now, which stays
	}
	if err := os.Remove(w.h.path(name)); err != nil {
		return fmt.Errorf("remove link %s: %w", name, err)
	}
	w.undoing("restore link "+name, func(context.Context) error { return os.Symlink(target, w.h.path(name)) })
	w.addChange("removed", name, "")
	return nil
}

// rmdir removes a directory that is empty. One with files in it stays.
func (w *work) rmdir(name string) error {
	entries, err := os.ReadDir(w.h.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", name, err)
	}
	if len(entries) > 0 {
		w.addChange("kept", name, fmt.Sprintf("(%d other files are in it)", len(entries)))
		return nil
	}
	if err := os.Remove(w.h.path(name)); err != nil {
		return fmt.Errorf("remove directory %s: %w", name, err)
	}
	w.undoing("make directory "+name, func(context.Context) error { return os.Mkdir(w.h.path(name), 0o755) })
	w.addChange("removed", name, "")
	return nil
}

// systemctl runs a verb on dnsmasq's unit; inverse undoes it, "" if nothing does.
func (w *work) systemctl(ctx context.Context, verb, inverse, act string) error {
	if inverse != "" { // before the verb: one that fails may have half an effect
		w.undoing("systemctl "+inverse+" "+unit, func(ctx context.Context) error {
			_, err := w.h.runProgram(ctx, "systemctl", inverse, unit)
			return err
		})
	}
	if _, err := w.h.runProgram(ctx, "systemctl", verb, unit); err != nil {
		if said, look := w.h.runProgram(
			ctx, "journalctl", "--unit="+unit, "--lines=5", "--no-pager", "--output=cat"); look == nil {
			err = fmt.Errorf("%w; its journal: %s", err, last(said))
		}
		return err
	}
	w.addChange(act, unit, "")
	return nil
}

// restoreFile makes a file what it was.
func (h Host) restoreFile(name string, c content) error {
	if c.exists {
		return h.replace(name, c.text)
	}
	if err := os.Remove(h.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// temporary is where the next content of a file is written. dnsmasq ignores such
// a name in its directory.
func temporary(name string) string {
	return filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".new")
}

// replace writes a file so that its name always stands for a whole content.
func (h Host) replace(name, text string) error {
	part := temporary(name)
	if err := h.stage(part, text); err != nil {
		return err
	}
	if err := os.Rename(h.path(part), h.path(name)); err != nil {
		return errors.Join(fmt.Errorf("rename %s to %s: %w", part, name, err), os.Remove(h.path(part)))
	}
	// The rename has to be on disk, too.
	directory := filepath.Dir(name)
	d, err := os.Open(h.path(directory))
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", directory, err)
	}
	return nil
}

// stage writes a temporary file and has it on disk.
func (h Host) stage(part, text string) (err error) {
	f, err := os.OpenFile(h.path(part), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", part, err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", part, err), os.Remove(h.path(part)))
	}
	return nil
}
