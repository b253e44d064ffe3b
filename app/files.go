package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/failover/fence"
	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/kubeclient"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/internal/serviceuser"
)

// FileFault is a file or directory that a peer cannot use.
type FileFault struct {
	config.Problem
	Path    string
	Missing bool // it does not exist
	Away    bool // it lies in a directory that the peer cannot pass, or does not see
	Leads   bool // see config.File
}

// Files returns the files that a peer with this configuration uses: those of its options,
// and those that its kubeconfigs and its file of devices name. It reads these.
func Files(conf config.Config) []config.File {
	var all []config.File
	for _, f := range conf.Files() {
		all = append(all, f)
		switch f.Key {
		case "failover.fence_file":
			all = append(all, fence.Files(f.Path)...)
		case "failover.kubeconfigs", "haconfig.kubeconfigs":
			for _, path := range kubeclient.Files(f.Path) {
				all = append(all, config.File{Key: f.Key, Where: f.Where, Path: path, Leads: true})
			}
		}
	}
	return all
}

// FileFaults opens each file as this thread may, and returns what it cannot use. A file is
// opened and not read. It waits for a file system that hangs.
func FileFaults(files []config.File) []FileFault { return faultsOf(files, use) }

func faultsOf(files []config.File, use func(config.File) error) []FileFault {
	var out []FileFault
	type done struct {
		path   string
		access config.Access
	}
	seen := make(map[done]bool)
	for _, f := range files {
		if seen[done{f.Path, f.Access}] {
			continue
		}
		seen[done{f.Path, f.Access}] = true
		err := use(f)
		if err == nil {
			continue
		}
		_, closed := errors.AsType[*closedError](err)
		fault := FileFault{Path: f.Path, Leads: f.Leads, Missing: errors.Is(err, fs.ErrNotExist), Away: closed}
		fault.Problem = config.Problem{Where: f.Where, Key: f.Key, What: err.Error(), Do: fileRemedy(f, err)}
		out = append(out, fault)
	}
	return out
}

// use tries what the peer does with a file. It does not wait, as opening a pipe would.
func use(f config.File) error {
	path := f.Path
	if f.Access == config.MakesDirectory {
		for _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && path != "/"; _, err = os.Stat(path) {
			path = filepath.Dir(path) // in which it would be made
		}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist: %w", path, fs.ErrNotExist)
	case err != nil: // a directory on the way may let the peer not pass
		for i := 1; i < len(path); i++ {
			if dir := path[:i]; path[i] == '/' && unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS) != nil {
				return &closedError{dir, path, errors.Unwrap(err)}
			}
		}
		return fmt.Errorf("the peer may not read %s: %w", path, errors.Unwrap(err))
	case f.Access != config.ReadsFile && !info.IsDir():
		return fmt.Errorf("%s is no directory", path)
	case f.Access != config.ReadsFile:
		if err := unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
			return fmt.Errorf("the peer may not make files in %s: %w", path, err)
		}
		return nil
	case info.IsDir():
		return fmt.Errorf("%s is a directory", path)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("the peer may not read %s: %w", path, errors.Unwrap(err))
	}
	return file.Close()
}

// closedError says which directory on the way to a file lets the peer not pass.
type closedError struct {
	directory, file string
	err             error
}

// Error implements error.
func (e *closedError) Error() string {
	return fmt.Sprintf("the peer may not pass %s to %s: %v", e.directory, e.file, e.err)
}

// Unwrap returns what the kernel said.
func (e *closedError) Unwrap() error { return e.err }

func fileRemedy(f config.File, err error) string {
	switch {
	case errors.Is(err, bounds.ErrHangs):
		return "see to the file system that it lies on, as to the server of its share; 'stat " + f.Path +
			"' hangs meanwhile; where it does not, restart the peer or wait: it tries ever less often"
	case errors.Is(err, fs.ErrNotExist) && f.Access == config.WritesDirectory:
		return "make the directory, with mode 0700 and owned by the user of the service"
	case errors.Is(err, fs.ErrNotExist):
		return "write the file, readable for the user of the service, or name another"
	case errors.Is(err, unix.EROFS):
		return "name it as ReadWritePaths=-" + f.Path +
			" in a drop-in of the unit (docs/security.md), and restart the peer, also where the directory was made since it started"
	case errors.Is(err, fs.ErrPermission):
		return "give the user of the service the right; 'namei -l " + f.Path + "' shows the owners and modes on the way"
	}
	return "name another"
}

// fileLook is how often a peer opens the files that it uses. What it finds twice counts:
// a program that replaces a file may delete it first.
const fileLook = 5 * time.Second

// fileWatch opens the files that a running peer uses, with its own rights, so that one
// that is gone is told before the peer needs it (docs/design.md#eyes). Its methods may be
// called concurrently.
type fileWatch struct {
	try   func(config.File) error  // nil: use
	names bounds.Calls             // of files, in other files
	looks map[string]*bounds.Calls // by path: one that hangs holds up no other

	mu          sync.Mutex
	begun, kept int         // looks that began, and the one of last among them
	last        []FileFault // of the newest look
	faults      []FileFault // of the two newest
}

// Run looks every fileLook until ctx ends, at the files of the configuration in force, and calls
// also. What they name is read when that changes, as the peer does.
func (w *fileWatch) Run(ctx context.Context, conf func() *config.Config, also func()) {
	var read *config.Config // whose files are known
	var files []config.File
	for range pace.Every(ctx, fileLook) {
		if c := conf(); c != read {
			var named []config.File
			if files = c.Files(); w.names.Do(bounds.FileLimit, func() { named = Files(*c) }) == nil {
				read, files = c, named
			}
		}
		w.checkFiles(files)
		also()
	}
}

// use is use of a file whose file system may hang.
func (w *fileWatch) use(f config.File) error {
	w.mu.Lock()
	if w.looks == nil {
		w.looks = make(map[string]*bounds.Calls)
	}
	if w.looks[f.Path] == nil {
		w.looks[f.Path] = new(bounds.Calls)
	}
	look := w.looks[f.Path]
	w.mu.Unlock()
	try := use
	if w.try != nil {
		try = w.try
	}
	var fault error
	if err := look.Do(bounds.FileLimit, func() { fault = try(f) }); err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	return fault
}

// checkFiles looks once. A look that ends after one that began later says nothing of now.
func (w *fileWatch) checkFiles(files []config.File) {
	w.mu.Lock()
	w.begun++
	look := w.begun
	w.mu.Unlock()
	found := faultsOf(files, w.use)
	w.mu.Lock()
	defer w.mu.Unlock()
	if look < w.kept {
		return
	}
	w.kept = look
	before := make(map[string]bool)
	for _, f := range w.last {
		before[f.Path] = true
	}
	w.last, w.faults = found, nil
	for _, f := range found {
		if before[f.Path] {
			w.faults = append(w.faults, f)
		}
	}
}

// Faults are what two looks in a row found.
func (w *fileWatch) Faults() []FileFault {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults // never changed, but replaced
}

// Unfit is a reason not to lead: a file is gone that the leader's work depends on.
func (w *fileWatch) Unfit() error {
	for _, f := range w.Faults() {
		if f.Leads {
			return fmt.Errorf("%s: %s", f.Key, f.What)
		}
	}
	return nil
}

// fileTexts knows what the files held that a peer reads once, when their option begins to count, as
// it was just before they were read. Its methods may be called concurrently.
type fileTexts struct {
	reads bounds.Kept[[sha256.Size]byte]

	mu     sync.Mutex
	known  texts
	unread []string // keys of files that were written since, at the newest look
}

// texts are digests of what files hold; that of one which cannot be read is 0.
type texts map[namedFile][sha256.Size]byte

type namedFile struct{ key, path string }

func newFileTexts(conf config.Config) *fileTexts {
	t := &fileTexts{known: make(texts)}
	for _, f := range readOnce(conf) {
		t.known[f], _ = digest(f.path) // of one that hangs the start waits for it
	}
	return t
}

// readOnce are the files of a configuration that a peer reads once.
func readOnce(conf config.Config) (files []namedFile) {
	for _, f := range conf.Files() {
		switch f.Key {
		case "failover.fence_file", "failover.kubeconfigs", "haconfig.kubeconfigs", "inspection.accelerators.known_devices":
			files = append(files, namedFile{f.Key, f.Path})
		}
	}
	return files
}

func digest(path string) ([sha256.Size]byte, error) {
	text, _, err := bounds.ReadFile(path, config.MaxFile)
	if err != nil {
		return [sha256.Size]byte{}, nil
	}
	return sha256.Sum256(text), nil
}

// read reads the files of a configuration. Of one that hangs it returns what the newest look has found, if one has
// found something, and the error.
func (t *fileTexts) read(conf config.Config) (now texts, hangs []error) {
	now = make(texts)
	for _, f := range readOnce(conf) {
		text, known, err := t.reads.Read(f.path, digest)
		if known {
			now[f] = text
		}
		if err != nil {
			hangs = append(hangs, fmt.Errorf("%s: read %s: %w", f.key, f.path, err))
		}
	}
	return now, hangs
}

// rewritten returns the keys of a configuration of whose files one holds another text than the one
// that counts, or cannot be read now that a reload would; and which hang, which count as they were.
func (t *fileTexts) rewritten(conf config.Config) (keys []string, hangs []error) {
	now, hangs := t.read(conf)
	t.mu.Lock()
	defer t.mu.Unlock()
	for f, text := range now {
		option, _ := config.Lookup(f.key)
		switch known, read := t.known[f]; {
		case read && text == known:
		case text == [sha256.Size]byte{} && option.Change != config.AtReload: // file_unusable tells of it
		default:
			keys = append(keys, f.key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), hangs
}

// keep notes the texts of the keys that were applied.
func (t *fileTexts) keep(now texts, applied []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for f, text := range now {
		if slices.Contains(applied, f.key) { // order-free: each by itself
			t.known[f] = text
		}
	}
	t.unread = slices.DeleteFunc(t.unread, func(key string) bool { return slices.Contains(applied, key) })
}

// look notes for warnings whose files were written and do not count yet.
func (t *fileTexts) look(conf config.Config) {
	found, _ := t.rewritten(conf) // where the file system hangs, file_unusable tells of it
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unread = found
}

// unreadNow looks and returns the keys of unread files; where a file system hangs, what the newest
// look has found.
func (t *fileTexts) unreadNow(conf config.Config) []string {
	t.look(conf)
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.unread)
}

// warnings are for status: what waits for a restart no reload would read.
func (t *fileTexts) warnings(waiting []string) []api.Warning {
	t.mu.Lock()
	unread := slices.DeleteFunc(slices.Clone(t.unread), func(key string) bool { return slices.Contains(waiting, key) })
	t.mu.Unlock()
	if len(unread) == 0 {
		return nil
	}
	return []api.Warning{{Code: "reload_needed",
		Text: "files of these options were changed, and this peer runs with what it read before: " +
			strings.Join(unread, ", "),
		Remedy: "'trivet config check', then 'systemctl reload trivet'"}}
}

// warnings are for status.
func (w *fileWatch) warnings() []api.Warning {
	var out []api.Warning
	for _, f := range w.Faults() {
		do := f.Do
		f.Do = ""
		out = append(out, api.Warning{Code: "file_unusable", Text: f.String() + "; the peer runs with what it read before",
			Remedy: do})
	}
	return out
}

// addFaults adds to the facts of a host what its peer cannot use.
func addFaults(f *doctor.Facts, faults []FileFault) {
	for _, fault := range faults {
		u := doctor.Useless{Do: fault.Do}
		fault.Do = ""
		u.What = fault.String()
		f.Plan.Unusable = append(f.Plan.Unusable, u)
	}
}

// ServiceFaults returns what the peer of this host could not use, with the rights of the user
// who runs it: this process may be root's, who may read everything. A user who cannot find
// that out is told nothing.
func ServiceFaults(ctx context.Context, conf config.Config) (out []FileFault, err error) {
	files := Files(conf)
	who, known := serviceuser.Of(conf.DataDir)
	if !known {
		return FileFaults(files), nil // it runs as who runs this
	}
	var unit serviceuser.Unit
	if named, ok := serviceuser.Named(); ok && who == named && who.Judges() {
		unit = serviceuser.ReadUnit(ctx)
	}
	err = who.Do(unit.Groups, func() { out = FileFaults(files) })
	return append(out, hiddenFaults(files, unit, out)...), err
}

// hiddenFaults are the files that the unit hides from the service, but for those that are
// among the faults already.
func hiddenFaults(files []config.File, unit serviceuser.Unit, known []FileFault) []FileFault {
	var out []FileFault
	for _, f := range files {
		path := f.Path
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		dir := unit.Hides(path)
		if dir == "" || slices.ContainsFunc(known, func(k FileFault) bool { return k.Path == f.Path }) {
			continue
		}
		out = append(out, FileFault{Path: f.Path, Leads: f.Leads, Away: true,
			Problem: config.Problem{Where: f.Where, Key: f.Key,
				What: fmt.Sprintf("%s lies in %s, which the unit of the service hides from it", f.Path, dir),
				Do:   "move it, for instance to /etc/trivet"}})
	}
	return out
}
