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
// one fails. On a host that is Dry the steps are noted alone.
type work struct {
	h      Host
	report Report
	undo   []step
	edits  []*noted // in the order of the first of each path
}

// noted is what the steps so far make of one path.
type noted struct {
	path          string
	before, after content
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
	if !w.h.Dry {
		w.undo = append(w.undo, step{what, do})
	}
}

// edit carries out what alters one path, unless the host is Dry, and notes it.
func (w *work) edit(name string, before, after content, do func() error) error {
	if !w.h.Dry {
		if err := do(); err != nil {
			return err
		}
	}
	if n := w.noted(name); n != nil {
		n.after = after
	} else {
		w.edits = append(w.edits, &noted{name, before, after})
	}
	return nil
}

// noted returns what was noted of a path, nil for nothing.
func (w *work) noted(name string) *noted {
	if i := slices.IndexFunc(w.edits, func(n *noted) bool { return n.path == name }); i >= 0 {
		return w.edits[i]
	}
	return nil
}

// told is the report of all steps.
func (w *work) told() Report {
	for _, n := range w.edits {
		if n.before != n.after {
			w.report.Edits = append(w.report.Edits, Edit{n.path, n.before.shown(), n.after.shown()})
		}
	}
	return w.report
}

// shown is a content as a report has it.
func (c content) shown() string {
	if c.exists && c.text == "" {
		return "empty file\n"
	}
	return c.text
}

// directory and linkTo are what a report shows of what is no file.
func directory() content { return content{"directory\n", true} }

func linkTo(target string) content { return content{"link to " + target + "\n", true} }

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
		err := w.edit(dir, content{}, directory(), func() error {
			if err := os.Mkdir(w.h.path(dir), 0o755); err != nil {
				return err
			}
			w.undoing("remove directory "+dir, func(context.Context) error { return os.Remove(w.h.path(dir)) })
			return os.Chmod(w.h.path(dir), 0o755) // dnsmasq reads it as another user, under any umask
		})
		if err != nil {
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
	err := w.edit(name, content{}, linkTo(target), func() error { return os.Symlink(target, w.h.path(name)) })
	if err != nil {
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
	if err := w.edit(name, before, content{text, true}, func() error { return w.h.replace(name, text) }); err != nil {
		return err
	}
	w.undoing("restore "+name, func(context.Context) error { return w.h.restoreFile(name, before) })
	w.addChange("wrote", name, "")
	return nil
}

// rename moves a file; act is what is reported of object.
func (w *work) rename(from, to, act, object, note string) error {
	moved, err := w.h.readContent(from)
	if err != nil {
		return err
	}
	err = w.edit(from, moved, content{}, func() error { return os.Rename(w.h.path(from), w.h.path(to)) })
	if err != nil {
		return fmt.Errorf("rename %s to %s: %w", from, to, err)
	}
	if err := w.edit(to, content{}, moved, func() error { return nil }); err != nil {
		return err
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
	if err := w.edit(name, before, content{}, func() error { return os.Remove(w.h.path(name)) }); err != nil {
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
	err := w.edit(name, linkTo(target), content{}, func() error { return os.Remove(w.h.path(name)) })
	if err != nil {
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
	if n := w.left(name, entries); n > 0 {
		w.addChange("kept", name, fmt.Sprintf("(%d other files are in it)", n))
		return nil
	}
	err = w.edit(name, directory(), content{}, func() error { return os.Remove(w.h.path(name)) })
	if err != nil {
		return fmt.Errorf("remove directory %s: %w", name, err)
	}
	w.undoing("make directory "+name, func(context.Context) error { return os.Mkdir(w.h.path(name), 0o755) })
	w.addChange("removed", name, "")
	return nil
}

// left counts what is in a directory after the steps so far.
func (w *work) left(dir string, entries []fs.DirEntry) int {
	if !w.h.Dry {
		return len(entries)
	}
	in := make(map[string]bool)
	for _, e := range entries {
		in[filepath.Join(dir, e.Name())] = true
	}
	for _, n := range w.edits {
		if delete(in, n.path); n.after.exists && filepath.Dir(n.path) == dir {
			in[n.path] = true
		}
	}
	return len(in)
}

// systemctl runs a verb on dnsmasq's unit; inverse undoes it, "" if nothing does.
func (w *work) systemctl(ctx context.Context, verb, inverse, act string) error {
	if w.h.Dry {
		w.addChange(act, unit, "")
		return nil
	}
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
