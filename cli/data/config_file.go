package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/cli/local"
	"github.com/trivet-ha/trivet/cli/options"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
)

// draft is the configuration file that init and join complete. What stands in
// it stays as it is; what is missing is written.
type draft struct {
	path string // absolute; where it is or would be
	text []byte // as it is; the template where there is none
	mode fs.FileMode
	info fs.FileInfo // nil where there is none
	why  error       // it is not to be written; nil: it may be
}

// errNoFile is why /dev/null and the like are not written: the operator wants no file.
var errNoFile = errors.New("it is no regular file")

// openDraft reads the file that was named, or the usual one. Unlike everywhere
// else it need not be there.
func openDraft(set *options.Set) (*draft, error) {
	name := set.Named()
	named := name != ""
	if !named {
		name = options.DefaultFile
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, term.Fail(term.ExitUsage, "name another with --config", "configuration: %w", err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // else writing would put a file in the place of the link
	}
	f := &draft{path: path, mode: local.SecretFile}
	if err := f.readFile(); err != nil {
		return nil, term.Fail(term.ExitUsage, "name another with --config", "configuration: %w", err)
	}
	if f.why == nil {
		dir := filepath.Dir(path)
		err := unix.Access(dir, unix.W_OK|unix.X_OK)
		if !named && errors.Is(err, fs.ErrNotExist) { // the directory of the usual file is made
			dir = filepath.Dir(dir)
			err = unix.Access(dir, unix.W_OK|unix.X_OK)
		}
		if err != nil {
			f.why = fmt.Errorf("%s cannot be written: %s: %w", path, dir, err)
		}
	}
	if named && f.why != nil && !errors.Is(f.why, errNoFile) {
		return nil, term.Fail(term.ExitUsage, "name a file that can be written with --config, or run this as root",
			"configuration: %w", f.why)
	}
	return f, nil
}

func (f *draft) readFile() error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.text, err = config.Template(nil)
		return err
	}
	if err != nil {
		return err
	}
	defer file.Close()
	if f.info, err = file.Stat(); err != nil {
		return err
	}
	if !f.info.Mode().IsRegular() {
		f.why = errNoFile
	}
	f.mode = f.info.Mode().Perm()
	f.text, err = io.ReadAll(io.LimitReader(file, config.MaxFile+1))
	return err
}

// load reads the configuration as serve would if the file had this text. That
// http_basic has no file of users is no problem here: one is about to be made.
func (f *draft) load(set *options.Set, text []byte) (config.Config, error) {
	conf, err := set.Parse(f.path, text)
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		return conf, err
	}
	rest := slices.DeleteFunc(slices.Clone(problems), func(problem config.Problem) bool {
		return problem.Key == "api.auth_strategy" && conf.API.AuthStrategy == "http_basic" &&
			conf.API.HTTPBasicAuthUserFile == ""
	})
	if len(rest) == 0 {
		return conf, nil
	}
	return conf, options.Error(rest)
}

// readDraft opens the file and loads the configuration with it.
func readDraft(set *options.Set) (*draft, config.Config, error) {
	f, err := openDraft(set)
	if err != nil {
		return nil, config.Config{}, err
	}
	conf, err := f.load(set, f.text)
	return f, conf, err
}

// loadDraft is readDraft at the start of a command, which says what deserves a second look.
func loadDraft(t *term.Terminal, set *options.Set) (*draft, config.Config, error) {
	f, conf, err := readDraft(set)
	for _, w := range conf.Warnings() {
		t.Warn("%v", w)
	}
	return f, conf, err
}

// untouched refuses to write over what came into the file since it was read.
func (f *draft) untouched() error {
	now := &draft{path: f.path}
	if err := now.readFile(); err != nil {
		return term.Fail(term.ExitFailed, "repeat the command", "configuration: %w", err)
	}
	if (now.info == nil) != (f.info == nil) || !bytes.Equal(now.text, f.text) {
		return term.Fail(term.ExitConflict, "repeat the command, which reads it again",
			"configuration: %s has changed since it was read, and was left as it is", f.path)
	}
	return nil
}

// refuse refuses a configuration before this host is made a peer by it.
func refuse(found config.Problems) error {
	if len(found) == 0 {
		return nil
	}
	return options.Error(found)
}

// givenFlags are the options that were given as flags and do not stand in the
// file yet: what a service would not know. A flag that contradicts the file
// counts for this command alone, which is said.
func givenFlags(t *term.Terminal, set *options.Set, f *draft, conf config.Config) map[string]string {
	// What is wrong with it was told with the whole, or is about to be mended, as users that are missing.
	alone, _ := config.Load(config.Sources{File: f.path, Text: f.text})
	written := make(map[string]config.Setting)
	for _, s := range alone.Effective() {
		written[s.Key] = s
	}
	given := make(map[string]string)
	for _, s := range conf.Effective() {
		value, flag := set.Values[s.Key]
		file := written[s.Key]
		switch {
		case !flag:
		case file.Origin.Kind == config.FromDefault:
			given[s.Key] = value
		case file.Value != s.Value:
			t.Warn("%v says otherwise than %v: the flag counts for this command alone", file.Origin, s.Origin)
		}
	}
	return given
}

// save puts the amended file in its place.
func save(t *term.Terminal, f *draft, text []byte, values map[string]string) error {
	mode := f.mode
	for key := range values {
		if o, ok := config.Lookup(key); ok && o.Secret() {
			mode = local.SecretFile
		}
	}
	if err := local.Replace(f.path, text, mode, f.info); err != nil {
		return term.Fail(term.ExitFailed, "write it into that file yourself: "+listed(values), "configuration: %w", err)
	}
	t.Say("%s: wrote %s", f.path, strings.Join(slices.Sorted(maps.Keys(values)), ", "))
	return nil
}

// listed shows keys and values as a person would write them, without secrets.
func listed(values map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		if o, ok := config.Lookup(key); ok && o.Secret() {
			value = "(secret)"
		}
		words = append(words, fmt.Sprintf("%s: %s", key, value))
	}
	return strings.Join(words, ", ")
}
