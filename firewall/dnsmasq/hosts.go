package dnsmasq

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/internal/pace"
)

var _ firewall.Chains = (*Hosts)(nil)

// Hosts are the lists of one host as files for its dnsmasq. One goroutine at a
// time calls its methods.
type Hosts struct {
	dir    *directory
	ledger *ledger

	// sure says that the files hold marks and pass: not before the first
	// Replace, nor after a failure.
	sure bool
	pass bool
	// marks are of all MACs that dnsmasq may have heard of from us, also of
	// those whose files another program removed.
	marks map[string]mark
}

// New returns the lists that are kept in a directory, which Prepare made. It
// changes nothing yet.
func New(path string) (*Hosts, error) {
	l := &ledger{}
	dir, err := open(path, l)
	if err != nil {
		return nil, err
	}
	return &Hosts{dir: dir, ledger: l, marks: make(map[string]mark)}, nil
}

// Close lets go of the directory. The files stay.
func (h *Hosts) Close() error { return h.dir.close() }

// Prepare makes the directory if need be, removes the files of ours that are in
// it, and leaves one, by which dnsmasq answers no machine. It is for when dnsmasq
// does not run, and it alone removes files: at boot, before dnsmasq starts. It
// fails with firewall.ErrForeign when there is anything else that dnsmasq would
// look at.
func Prepare(ctx context.Context, path string) (err error) {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return fmt.Errorf("firewall.dhcp_hostsdir: %w", err)
	}
	dir, err := open(path, &ledger{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.close()) }()
	if err := dir.root.Chmod(".", dirMode); err != nil {
		return fmt.Errorf("firewall.dhcp_hostsdir: let dnsmasq read it: %w", err)
	}
	names, err := dir.names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !isHostFileName(name) {
			return foreign(name)
		}
	}
	for _, name := range names {
		if err := dir.remove(name); err != nil {
			return err
		}
	}
	return dir.write(unknownFile, unknownText(false))
}

// Seal makes dnsmasq answer no machine, and empties all lists, until they are
// programmed again; it reads that back. It removes nothing, so that it may be
// called while dnsmasq runs.
func (h *Hosts) Seal(ctx context.Context) error {
	return firewall.Seal(ctx, h, "the files for dnsmasq", "they do not stay as they are written")
}

// Release makes dnsmasq answer every machine, for a host whose lists are kept elsewhere by
// now: dnsmasq goes on heeding the files for as long as its configuration names them. A
// directory that is not there, or that Prepare did not make, is left alone.
func Release(ctx context.Context, path string) (err error) {
	h, err := New(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	text, err := h.dir.readFile(unknownFile)
	if err == nil {
		_, err = parsePass(text)
	}
	if errors.Is(err, firewall.ErrForeign) {
		return nil // the directory is another program's
	}
	if err != nil {
		return err
	}
	return h.Replace(ctx, firewall.Ruleset{Pass: true})
}

// isHostFileName reports whether a name is one that we would give.
func isHostFileName(name string) bool { return name == unknownFile || firewall.IsMAC(name) }

func foreign(name string) error {
	return fmt.Errorf(
		"%w: %.80q in firewall.dhcp_hostsdir is none of its files: remove it, and restart dnsmasq, which remembers it",
		firewall.ErrForeign, name)
}

// file is a file that has to be written.
type file struct{ name, text string }

// files are those that shut, in the order in which they are written, and then those that open.
type files struct{ shut, open []file }

// add adds a file. That unknown machines are shut out comes first; that they are let in is added
// last, when all that is denied is known.
func (f *files) add(name, text string, opens bool) {
	switch {
	case opens:
		f.open = append(f.open, file{name, text})
	case name == unknownFile:
		f.shut = slices.Insert(f.shut, 0, file{name, text})
	default:
		f.shut = append(f.shut, file{name, text})
	}
}

// Replace implements firewall.Chains. It writes the files that differ, in
// bursts; one that ctx ends is gone on with by the next. Files of others stay,
// for Read to find.
func (h *Hosts) Replace(ctx context.Context, r firewall.Ruleset) error {
	if err := firewall.CheckMACs(r.Allow, r.Deny); err != nil {
		return err
	}
	h.sure = false
	now, err := h.readHostFiles(ctx)
	if err != nil {
		return err
	}
	next := make(map[string]mark, len(h.marks))
	for mac := range h.marks {
		next[mac] = mark{}
	}
	for _, mac := range r.Deny {
		next[mac] = mark{deny: true}
	}
	for _, mac := range r.Allow {
		next[mac] = mark{allow: true, deny: next[mac].deny}
	}
	h.marks = next
	var todo files
	for mac, m := range next {
		if text := m.text(mac, r.Pass); text != now[mac] {
			todo.add(mac, text, m.opens(r.Pass))
		}
	}
	if text := unknownText(r.Pass); text != now[unknownFile] {
		todo.add(unknownFile, text, r.Pass)
	}
	if err := h.writeAll(ctx, todo); err != nil {
		return err
	}
	h.pass, h.sure = r.Pass, true
	return nil
}

// readHostFiles reads all files of the directory, also those with a foreign text, and
// remembers which MACs they are of. It fails where dnsmasq would not see what is
// written.
func (h *Hosts) readHostFiles(ctx context.Context) (map[string]string, error) {
	if err := h.followDirectory(); err != nil {
		return nil, err
	}
	names, err := h.dir.names(ctx)
	if err != nil {
		return nil, err
	}
	now := make(map[string]string, len(names))
	for _, name := range names {
		if !isHostFileName(name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text, err := h.dir.readFile(name)
		if err != nil && !errors.Is(err, firewall.ErrForeign) { // a foreign text is overwritten
			return nil, err
		}
		now[name] = text
		if _, known := h.marks[name]; !known && name != unknownFile {
			h.marks[name] = mark{}
		}
	}
	if _, prepared := now[unknownFile]; !prepared && len(h.marks) == 0 {
		return nil,
			fmt.Errorf(
				"firewall.dhcp_hostsdir: %s was not prepared before dnsmasq started: 'trivet firewall close --offline --purge' does it; restart dnsmasq afterwards",
				h.dir.path)
	}
	return now, nil
}

// followDirectory turns to a new directory of the same name, if there is one. The unit of
// dnsmasq prepares it at each start.
func (h *Hosts) followDirectory() error {
	err := h.dir.current()
	if !errors.Is(err, firewall.ErrForeign) {
		return err
	}
	fresh, openErr := open(h.dir.path, h.ledger)
	if openErr != nil {
		return openErr
	}
	old := h.dir
	h.dir, h.marks = fresh, make(map[string]mark)
	return old.close()
}

// writeAll writes what shuts, then what opens.
func (h *Hosts) writeAll(ctx context.Context, todo files) error {
	all := slices.Concat(todo.shut, todo.open)
	for i, f := range all {
		if i > 0 && i%burst == 0 {
			pace.Wait(ctx, pause)
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d of %d files are written: %w", i, len(all), err)
		}
		if err := h.dir.write(f.name, f.text); err != nil {
			return err
		}
	}
	return nil
}

// errUnknown says that a change has nothing to start from.
var errUnknown = errors.New("the files are not known since a failure or the start; they have to be replaced first")

// Change implements firewall.Chains. The pass rule is in the files of all MACs
// that left the lists, too, so that a change of it costs as many.
func (h *Hosts) Change(ctx context.Context, c firewall.Change) error {
	if err := firewall.CheckMACs(c.Allow, c.Unallow, c.Deny, c.Undeny); err != nil {
		return err
	}
	if !h.sure {
		return errUnknown
	}
	next, pass := h.marksAfter(c)
	var todo files
	for mac, m := range next {
		old, known := h.marks[mac]
		was := ""
		if known {
			was = old.text(mac, h.pass)
		}
		text := m.text(mac, pass)
		if text == was {
			continue
		}
		if err := h.checkFile(mac, was); err != nil {
			return err
		}
		todo.add(mac, text, m.opens(pass))
	}
	if err := h.checkFile(unknownFile, unknownText(h.pass)); err != nil {
		return err
	}
	if pass != h.pass {
		todo.add(unknownFile, unknownText(pass), pass)
	}
	h.sure = false
	if err := h.dir.current(); err != nil {
		return err
	}
	maps.Copy(h.marks, next)
	if err := h.writeAll(ctx, todo); err != nil {
		return err
	}
	h.pass, h.sure = pass, true
	return nil
}

// marksAfter returns the marks that a change may make others, and the pass rule.
func (h *Hosts) marksAfter(c firewall.Change) (next map[string]mark, pass bool) {
	next, pass = make(map[string]mark), h.pass
	edit := func(macs []string, edit func(*mark)) {
		for _, mac := range macs {
			m, edited := next[mac]
			if !edited {
				m = h.marks[mac]
			}
			edit(&m)
			if _, known := h.marks[mac]; known || m != (mark{}) {
				next[mac] = m
			}
		}
	}
	edit(c.Unallow, func(m *mark) { m.allow = false })
	edit(c.Undeny, func(m *mark) { m.deny = false })
	edit(c.Allow, func(m *mark) { m.allow = true })
	edit(c.Deny, func(m *mark) { m.deny = true })
	if c.Pass != nil && *c.Pass != pass {
		pass = *c.Pass
		for mac, m := range h.marks {
			if _, edited := next[mac]; !edited && m == (mark{}) {
				next[mac] = m
			}
		}
	}
	return next, pass
}

// checkFile fails unless a file is as it was written; "" is none.
func (h *Hosts) checkFile(name, text string) error {
	now, err := h.dir.readFile(name)
	if err == nil && now != text {
		err = changed(name)
	}
	if err != nil {
		h.sure = false
	}
	return err
}

// Read implements firewall.Chains.
func (h *Hosts) Read(ctx context.Context) (r firewall.Ruleset, err error) {
	if err := h.dir.current(); err != nil {
		return r, err
	}
	names, err := h.dir.names(ctx)
	if err != nil {
		return r, err
	}
	text, err := h.dir.readFile(unknownFile)
	if err != nil {
		return r, err
	}
	if r.Pass, err = parsePass(text); err != nil {
		return r, err
	}
	found := 0
	slices.Sort(names)
	for _, name := range names {
		switch {
		case name == unknownFile:
			continue
		case !firewall.IsMAC(name):
			return r, foreign(name)
		case ctx.Err() != nil:
			return r, ctx.Err()
		}
		text, err := h.dir.readFile(name)
		if err != nil {
			return r, err
		}
		m, err := parseMark(name, text, r.Pass)
		if err != nil {
			return r, err
		}
		if m.allow {
			r.Allow = append(r.Allow, name)
		}
		if m.deny {
			r.Deny = append(r.Deny, name)
		}
		if _, known := h.marks[name]; known {
			found++
		}
	}
	if found < len(h.marks) {
		return r, fmt.Errorf("%w: %d files were removed, which dnsmasq does not notice", firewall.ErrForeign,
			len(h.marks)-found)
	}
	return r, nil
}
