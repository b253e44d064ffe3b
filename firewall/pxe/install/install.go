package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/firewall/pxe"
)

// Plan is what is to be installed.
type Plan struct {
	Server pxe.Server // without Without and BindInterfaces, which Install finds out
	Boot   pxe.Boot
	Force  bool // replace files that were changed by hand
	// Flags are kept for the next installation (see Kept): name → values.
	Flags map[string][]string
}

// survey is what Install found on a host that it has not changed yet.
type survey struct {
	record       *record
	fresh        bool // nothing was installed before
	service      service
	dirs         []string          // to be made, the deepest first
	links        map[string]string // to be made: name → target
	kept         []string          // loaders that are in the TFTP root
	lost         map[string]string // those of kept that are links as Install makes them
	conf, script content
	texts        map[string]string // path → what has to stand there
	save         []string          // files of the operator that are to be replaced
	report       Report            // what is left out, and warnings
}

// Install makes the host a boot server. It is idempotent: what is right already is
// left alone, and dnsmasq is restarted only if its file changed, here or in an
// installation that was killed before it restarted dnsmasq. A ChangedError,
// and an error that is ErrMissing, say that nothing was done; after any other
// error all is as it was, or the error names what could not be undone.
func (h Host) Install(ctx context.Context, p Plan) (_ Report, err error) {
	unlock, err := h.lock()
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	s, err := h.survey(ctx, p)
	if err != nil {
		return Report{}, err
	}
	if err := h.tryConf(ctx, s.texts[pxe.ConfFile]); err != nil {
		return Report{}, err
	}
	w := &work{h: h, report: s.report}
	if err := w.install(ctx, p, s); err != nil {
		return Report{}, w.rollback(ctx, err)
	}
	return w.told(), nil
}

// survey looks at the host and refuses what cannot be.
func (h Host) survey(ctx context.Context, p Plan) (s survey, err error) {
	if s.service, err = h.service(ctx); err != nil {
		return s, err
	}
	if s.record, err = h.readRecord(); err != nil {
		return s, err
	}
	if s.record == nil {
		s.fresh, s.record = true, &record{Before: s.service}
	}
	if err := h.lookAtPorts(ctx, p.Server, &s.report); err != nil {
		return s, err
	}
	s.dirs = h.missingDirs(p.Server.Root)
	if err := h.findLoaders(&p, &s); err != nil {
		return s, err
	}
	if p.Server.BindInterfaces, err = h.bindInterfaces(); err != nil {
		return s, err
	}
	script := path.Join(p.Server.Root, pxe.ScriptName)
	s.texts = make(map[string]string)
	if s.texts[pxe.ConfFile], err = p.Server.Config(); err != nil {
		return s, err
	}
	if s.texts[script], err = p.Boot.Script(); err != nil {
		return s, err
	}
	if s.conf, err = h.readContent(pxe.ConfFile); err != nil {
		return s, err
	}
	if s.script, err = h.readContent(script); err != nil {
		return s, err
	}
	var changed []string
	for name, c := range map[string]content{pxe.ConfFile: s.conf, script: s.script} { // order-free: sorted below
		if c.exists && !c.ours() && c.text != s.texts[name] {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	if len(changed) > 0 && !p.Force {
		return s, &ChangedError{changed}
	}
	if s.fresh {
		if s.save, err = h.toSave(changed); err != nil {
			return s, err
		}
	}
	h.lookForRamdisk(ctx, p, &s.report)
	return s, nil
}

// toSave are files that trivet did not write, if they can be kept under another
// name. Later edits of its own files are no such: restoring them would leave a DHCP
// server without a filter.
func (h Host) toSave(foreign []string) ([]string, error) {
	for _, name := range foreign {
		c, err := h.readContent(saved(name))
		if err != nil {
			return nil, err
		}
		if c.exists {
			return nil, fmt.Errorf("%s is to be kept as %s, which exists: move that away", name, saved(name))
		}
	}
	return foreign, nil
}

// findLoaders plans the links, and leaves out of the configuration what the host
// does not have.
func (h Host) findLoaders(p *Plan, s *survey) error {
	s.links, s.lost = make(map[string]string), make(map[string]string)
	for _, l := range pxe.Loaders() {
		name := path.Join(p.Server.Root, l.File)
		if h.filled(name) {
			s.kept = append(s.kept, name)
			if target, err := os.Readlink(h.path(name)); err == nil && slices.Contains(l.Sources, target) {
				s.lost[name] = target
			}
			continue
		}
		if _, err := os.Lstat(h.path(name)); err == nil {
			return fmt.Errorf("%s is there and is no loader: it is empty, or a link that leads nowhere; remove it", name)
		}
		if i := slices.IndexFunc(l.Sources, h.filled); i >= 0 {
			s.links[name] = l.Sources[i]
			continue
		}
		p.Server.Without = append(p.Server.Without, l.File)
		s.report.Changes = append(s.report.Changes,
			Change{"left out", name, fmt.Sprintf("for %s: it is missing; %s", l.What, l.Package)})
	}
	if len(p.Server.Without) == len(pxe.Loaders()) {
		return fmt.Errorf("%w: iPXE's programs %s, in %s as well as in /usr/lib/ipxe and /usr/share/ipxe", ErrMissing,
			strings.Join(pxe.Files(), ", "), p.Server.Root)
	}
	return nil
}

// lookForRamdisk warns where machines would find no kernel or no ramdisk.
func (h Host) lookForRamdisk(ctx context.Context, p Plan, r *Report) {
	for _, name := range []string{p.Boot.Kernel, p.Boot.Ramdisk} {
		if strings.Contains(name, "://") {
			if err := h.Fetch(ctx, name); err != nil {
				r.warn("machines would not boot: fetch %s: %v", name, err)
			}
			continue
		}
		file := path.Join(p.Server.Root, name)
		if !h.filled(file) {
			r.warn(
				"machines would not boot: %s is missing or empty; put kernel and ramdisk of ironic-python-agent there (docs/install.md), or name URLs with --kernel and --ramdisk",
				file)
		}
	}
}

// tryConf lets dnsmasq read the configuration before it is put in force.
func (h Host) tryConf(ctx context.Context, text string) (err error) {
	part := temporary(pxe.ConfFile)
	if h.Dry { // nothing is written where dnsmasq's files are
		var dir string // no := below, which would give the deferred function an err of its own
		if dir, err = os.MkdirTemp("", "trivet-dnsmasq-"); err != nil {
			return fmt.Errorf("try the configuration: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		h.Root, part = dir, "/trivet.conf"
	}
	if err := h.stage(part, text); err != nil {
		return err
	}
	_, err = h.runProgram(ctx, "dnsmasq", "--test", "--conf-file="+h.path(part))
	if err != nil {
		err = fmt.Errorf("dnsmasq does not take the configuration (it needs dnsmasq 2.81 or newer): %w", err)
	}
	return errors.Join(err, os.Remove(h.path(part)))
}

func (w *work) install(ctx context.Context, p Plan, s survey) error {
	script := path.Join(p.Server.Root, pxe.ScriptName)
	s.record.plan(s.dirs, s.links, script, s.save)
	if s.record.Flags = p.Flags; p.Flags == nil {
		s.record.Flags = make(map[string][]string)
	}
	if s.fresh && s.script.ours() { // the record of an earlier installation went with /etc/trivet
		maps.Copy(s.record.Links, s.lost)
	}
	s.record.Restart = s.record.Restart || s.conf.text != s.texts[pxe.ConfFile]
	if err := w.writeRecord(s.record); err != nil {
		return err
	}
	if err := w.mkdir(p.Server.Root); err != nil {
		return err
	}
	for _, name := range s.kept {
		w.addChange("unchanged", name, "")
	}
	for _, name := range slices.Sorted(maps.Keys(s.links)) {
		if err := w.link(s.links[name], name); err != nil {
			return err
		}
	}
	if _, err := w.bring(script, s.script, s); err != nil {
		return err
	}
	if s.record.Restart && s.service.Active {
		// Before the file: the steps are taken back from the last.
		w.undoing("restart "+unit+" as it was", func(ctx context.Context) error {
			_, err := w.h.runProgram(ctx, "systemctl", "restart", unit)
			return err
		})
	}
	changed, err := w.bring(pxe.ConfFile, s.conf, s)
	if err != nil {
		return err
	}
	before, now := pxe.ReadConfig(s.conf.text), pxe.ReadConfig(s.texts[pxe.ConfFile])
	if changed && s.conf.exists && !slices.Equal(before.Pools, now.Pools) {
		w.report.warn(
			"the pools changed: another host may have granted addresses that are this host's now. Install on every host, and introspect nothing for %v",
			p.Server.Lease)
	}
	if err := w.serve(ctx, s.service, s.record.Restart); err != nil {
		return err
	}
	s.record.Restart = false
	return w.writeRecord(s.record)
}

// bring makes a file what it has to be, and reports whether it was not.
func (w *work) bring(name string, now content, s survey) (changed bool, err error) {
	if now.text == s.texts[name] {
		w.addChange("unchanged", name, "")
		return false, nil
	}
	if slices.Contains(s.save, name) {
		if err := w.rename(name, saved(name), "saved", name, "as "+saved(name)); err != nil {
			return false, err
		}
	}
	return true, w.write(name, s.texts[name])
}

// serve has dnsmasq run with its file, now and after a reboot; restart says that it may run with an earlier one.
func (w *work) serve(ctx context.Context, before service, restart bool) error {
	if before.Enabled {
		w.addChange("unchanged", unit, "(enabled)")
	} else if err := w.systemctl(ctx, "enable", "disable", "enabled"); err != nil {
		return err
	}
	switch {
	case !before.Active:
		return w.systemctl(ctx, "start", "stop", "started")
	case restart:
		return w.systemctl(ctx, "restart", "", "restarted")
	}
	w.addChange("unchanged", unit, "(running)")
	return nil
}

// Uninstall takes back what Install did and restores what was there before,
// dnsmasq's state included. root is the TFTP root, for a host without a record.
// Where nothing is installed it does nothing. Errors are as Install's.
func (h Host) Uninstall(ctx context.Context, root string, force bool) (_ Report, err error) {
	unlock, err := h.lock()
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	r, err := h.readRecord()
	if err != nil {
		return Report{}, err
	}
	recorded := r != nil
	if !recorded { // files that were printed and redirected
		r = &record{Scripts: []string{path.Join(root, pxe.ScriptName)}}
	}
	var present, changed, files []string
	for _, name := range r.files() {
		c, err := h.readContent(name)
		if err != nil {
			return Report{}, err
		}
		if h.restored(r, name, c) {
			continue
		}
		files = append(files, name)
		if c.exists {
			present = append(present, name)
		}
		if c.exists && !c.ours() {
			changed = append(changed, name)
		}
	}
	if len(changed) > 0 && !force {
		return Report{}, &ChangedError{changed}
	}
	w := &work{h: h}
	if !recorded && len(present) == 0 {
		return w.told(), nil
	}
	if err := w.uninstall(ctx, r, files, recorded); err != nil {
		return Report{}, w.rollback(ctx, err)
	}
	return w.told(), nil
}

// restored reports whether a file is the operator's again, by an uninstallation that was killed.
func (h Host) restored(r *record, name string, now content) bool {
	_, err := os.Lstat(h.path(saved(name)))
	return now.exists && !now.signed() && slices.Contains(r.Saved, name) && errors.Is(err, fs.ErrNotExist)
}

func (w *work) uninstall(ctx context.Context, r *record, files []string, recorded bool) error {
	now, err := w.h.service(ctx)
	if errors.Is(err, ErrMissing) { // the package is gone, and dnsmasq with it
		now, r.Before, err = service{}, service{}, nil
	}
	if err != nil {
		return err
	}
	if now.Active { // first: nothing may be granted while files go
		if err := w.systemctl(ctx, "stop", "start", "stopped"); err != nil {
			return err
		}
	}
	if now.Enabled && !r.Before.Enabled {
		if err := w.systemctl(ctx, "disable", "enable", "disabled"); err != nil {
			return err
		}
	}
	if err := w.takeBack(r, files); err != nil {
		return err
	}
	if !recorded {
		w.report.warn("what dnsmasq was before is not recorded: it is stopped and disabled")
	}
	if r.Before.Active {
		if err := w.systemctl(ctx, "start", "stop", "started"); err != nil {
			return err
		}
	}
	return w.forget()
}

// takeBack removes files, links and directories, and restores what was saved.
func (w *work) takeBack(r *record, files []string) error {
	for _, name := range files {
		if err := w.remove(name); err != nil {
			return err
		}
		if !slices.Contains(r.Saved, name) {
			continue
		}
		if _, err := os.Lstat(w.h.path(saved(name))); err != nil {
			w.report.warn("%s, which was there before, cannot be restored: %v", name, err)
			continue
		}
		if err := w.rename(saved(name), name, "restored", name, "as it was before"); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Links)) {
		if err := w.unlink(name, r.Links[name]); err != nil {
			return err
		}
	}
	for _, dir := range slices.Backward(r.Dirs) {
		if err := w.rmdir(filepath.Clean(dir)); err != nil {
			return err
		}
	}
	return nil
}

// forget removes the record, the last of all: it says whether dnsmasq is to be started.
func (w *work) forget() error {
	before, err := w.h.readContent(RecordFile)
	if err != nil || !before.exists {
		return err
	}
	w.undoing("restore "+RecordFile, func(context.Context) error { return w.h.restoreFile(RecordFile, before) })
	return w.edit(RecordFile, before, content{}, func() error { return w.h.restoreFile(RecordFile, content{}) })
}
