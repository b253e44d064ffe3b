package install

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/trivet-ha/trivet/firewall/pxe"
)

// record is what the host was before the first installation, and what has been
// added since. It names more than is there when an installation was interrupted.
type record struct {
	Before service           `json:"before"`
	Dirs   []string          `json:"dirs"`  // made, each after those above it
	Links  map[string]string `json:"links"` // name → target
	// Scripts are the paths of the boot script, in every TFTP root that was named.
	Scripts []string `json:"scripts"`
	// Saved are files that stood there before, now under the name that saved
	// gives them.
	Saved []string `json:"saved"`
	// Flags are those of the last installation, nil in a record of v0.2.0.
	Flags map[string][]string `json:"flags"`
	// Restart says that dnsmasq may run with an earlier file than the one that is there.
	Restart bool `json:"restart,omitempty"`
}

// files are those that trivet wrote.
func (r *record) files() []string { return append([]string{pxe.ConfFile}, r.Scripts...) }

// saved is the name under which a file of the operator is kept. dnsmasq ignores
// such a name in its directory.
func saved(name string) string { return name + "~" }

// readRecord returns nil where nothing was installed.
func (h Host) readRecord() (*record, error) {
	c, err := h.readContent(RecordFile)
	if err != nil || !c.exists {
		return nil, err
	}
	r := new(record)
	if err := json.Unmarshal([]byte(c.text), r); err != nil {
		return nil, fmt.Errorf("read %s, which says what the host was before: %w", RecordFile, err)
	}
	return r, nil
}

// writeRecord makes known what is about to be done. An undo leaves the record of
// before, or none.
func (w *work) writeRecord(r *record) error {
	before, err := w.h.readContent(RecordFile)
	if err != nil {
		return err
	}
	if n := w.noted(RecordFile); n != nil { // of a dry run
		before = n.after
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", RecordFile, err)
	}
	if string(text)+"\n" == before.text {
		return nil
	}
	w.undoing("restore "+RecordFile, func(context.Context) error { return w.h.restoreFile(RecordFile, before) })
	after := content{string(text) + "\n", true}
	return w.edit(RecordFile, before, after, func() error { return w.h.replace(RecordFile, after.text) })
}

// Kept is what the last installation of a host was given. Where its flags are not recorded, as v0.2.0 did not, Conf
// and Script are what trivet wrote, "" for nothing.
type Kept struct {
	Flags        map[string][]string
	Conf, Script string
}

// Kept looks at the host. Where nothing is installed it is empty. root is the TFTP root unless the configuration
// names another.
func (h Host) Kept(root string) (Kept, error) {
	r, err := h.readRecord()
	if err != nil {
		return Kept{}, err
	}
	if r != nil && r.Flags != nil {
		return Kept{Flags: r.Flags}, nil
	}
	conf, err := h.readContent(pxe.ConfFile)
	if err != nil || !conf.signed() {
		return Kept{}, err
	}
	script, err := h.readContent(path.Join(cmp.Or(pxe.ReadConfig(conf.text).Root, root), pxe.ScriptName))
	if !script.signed() {
		script.text = ""
	}
	return Kept{Conf: conf.text, Script: script.text}, err
}

// plan adds what an installation is going to do.
func (r *record) plan(dirs []string, links map[string]string, script string, files []string) {
	for _, d := range slices.Backward(dirs) { // the deepest came first
		if !slices.Contains(r.Dirs, d) {
			r.Dirs = append(r.Dirs, d)
		}
	}
	if r.Links == nil {
		r.Links = make(map[string]string)
	}
	maps.Copy(r.Links, links)
	for _, f := range files {
		if !slices.Contains(r.Saved, f) {
			r.Saved = append(r.Saved, f)
		}
	}
	if !slices.Contains(r.Scripts, script) {
		r.Scripts = append(r.Scripts, script)
	}
}

// lock keeps a second installation away until unlock.
func (h Host) lock() (unlock func() error, err error) {
	dir := filepath.Dir(RecordFile)
	if !h.Dry {
		if err := os.MkdirAll(h.path(dir), 0o750); err != nil {
			return nil, fmt.Errorf("make directory %s: %w", dir, err)
		}
	}
	d, err := os.Open(h.path(dir))
	if h.Dry && errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, nil // no installation is at work
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: another 'trivet dnsmasq-config' is at work: %w", dir, err), d.Close())
	}
	return d.Close, nil
}
