package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// errNotRelinked says that a program of tests has to be built the ordinary way.
var errNotRelinked = errors.New("not relinked")

// relinker builds the program of a package's tests with one file replaced: it compiles
// the package of the file and links it with the others as they are, where go test
// compiles all that import it, most of the program for a package as low as fsm. The
// linker refuses it where the mutant changed what importers see (it compares the
// fingerprint of the export data); then, and where a package is built with more than
// the compiler, the error is errNotRelinked. Inlining is off in the packages of the
// module, so that the body of a function is nothing that importers see. It may be used
// concurrently.
type relinker struct {
	root string
	dir  string // where the programs without a mutant are

	mu       sync.Mutex
	programs map[string]func() (program, error) // by package of the tests; each made once
}

// program is the program of a package's tests, and what it is linked from.
type program struct {
	file    string // the program
	dir     string // of the package, where it runs
	main    builtPackage
	objects map[string]string // the compiled packages by import path
	own     []builtPackage    // those of the module
}

// builtPackage is a package as go list describes it, as far as it is used here.
type builtPackage struct {
	Dir, ImportPath, Export, Name, DefaultGODEBUG              string
	GoFiles, CgoFiles, SFiles, EmbedPatterns, EmbedFiles, Deps []string
	ImportMap                                                  map[string]string
	Module                                                     *struct {
		Main      bool
		GoVersion string
	}
}

// path is what the compiler calls the package: "fsm [fsm.test]" is how go list writes
// one that is compiled with its own tests.
func (p builtPackage) path() string {
	name, _, _ := strings.Cut(p.ImportPath, " ")
	return name
}

func newRelinker(root, dir string) *relinker {
	return &relinker{root: root, dir: dir, programs: make(map[string]func() (program, error))}
}

// relink returns the program p with a file of its source replaced; what it writes is
// in dir. file is absolute, its replacement is in dir and has its name.
func (p program) relink(ctx context.Context, dir, file string) (program, error) {
	broken, err := p.owner(file)
	if err != nil {
		return program{}, err
	}
	object := filepath.Join(dir, "package.a")
	if err := p.compile(ctx, broken, dir, filepath.Base(file), object); err != nil {
		return program{}, err
	}
	p.objects = maps.Clone(p.objects)
	p.objects[broken.path()] = object
	p.file = filepath.Join(dir, "tests")
	return p, p.link(ctx)
}

// program returns the program of a package's tests as they are.
func (r *relinker) program(ctx context.Context, pkg string) (program, error) {
	r.mu.Lock()
	build, known := r.programs[pkg]
	if !known {
		file := filepath.Join(r.dir, fmt.Sprintf("%d.test", len(r.programs)))
		build = sync.OnceValues(func() (program, error) {
			p, err := r.list(ctx, pkg)
			if err != nil {
				return program{}, err
			}
			p.file = file
			return p, p.link(ctx)
		})
		r.programs[pkg] = build
	}
	r.mu.Unlock()
	return build()
}

// list asks the go command what the program of a package's tests is linked from, and
// has it compile what is not compiled yet.
func (r *relinker) list(ctx context.Context, pkg string) (program, error) {
	module, err := command(ctx, r.root, "go", "list", "-m")
	if err != nil {
		return program{}, err
	}
	noInlining := "-gcflags=" + strings.TrimSpace(string(module)) + "/...=-l"
	const fields = "-json=Dir,ImportPath,Export,Name,DefaultGODEBUG,GoFiles,CgoFiles,SFiles,EmbedPatterns,EmbedFiles,Deps,ImportMap,Module"
	out, err := command(ctx, r.root, "go", "list", "-export", "-deps", "-test", "-trimpath", "-tags=e2e", noInlining,
		fields, pkg)
	if err != nil {
		return program{}, err
	}
	all, p := make(map[string]builtPackage), program{objects: make(map[string]string)}
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed builtPackage
		switch err := list.Decode(&listed); {
		case errors.Is(err, io.EOF) && p.main.Export == "":
			return program{}, fmt.Errorf("%w: %s has no tests", errNotRelinked, pkg)
		case errors.Is(err, io.EOF):
			p.dir = all[strings.TrimSuffix(p.main.ImportPath, ".test")].Dir
			for _, name := range p.main.Deps {
				p.add(all[name])
			}
			return p, nil
		case err != nil:
			return program{}, fmt.Errorf("read what go list printed: %w", err)
		}
		all[listed.ImportPath] = listed
		if listed.Name == "main" && strings.HasSuffix(listed.ImportPath, ".test") {
			p.main = listed
		}
	}
}

func (p *program) add(pkg builtPackage) {
	if pkg.Export != "" { // unsafe has none
		p.objects[pkg.path()] = pkg.Export
	}
	if pkg.Module != nil && pkg.Module.Main {
		p.own = append(p.own, pkg)
	}
}

// owner returns the package of the program that a file belongs to.
func (p program) owner(file string) (builtPackage, error) {
	dir, name := filepath.Split(file)
	for _, pkg := range p.own {
		if pkg.Dir == filepath.Clean(dir) && slices.Contains(pkg.GoFiles, name) && len(pkg.CgoFiles)+len(pkg.SFiles) == 0 {
			return pkg, nil
		}
	}
	return builtPackage{}, fmt.Errorf("%w: %s is not compiled into the tests from Go alone", errNotRelinked, file)
}

// compile compiles a package as the go command does, with the file of that name in dir
// in the place of its own.
func (p program) compile(ctx context.Context, pkg builtPackage, dir, file, object string) error {
	imports, embed := filepath.Join(dir, "importcfg"), filepath.Join(dir, "embedcfg")
	if err := writeImports(imports, p.objects, pkg.ImportMap); err != nil {
		return err
	}
	args := []string{
		"tool", "compile", "-o", object, "-trimpath", dir + "=>" + pkg.path() + ";" + pkg.Dir + "=>" + pkg.path(),
		"-p", pkg.path(), "-lang=go" + language(pkg.Module.GoVersion), "-complete", "-l", "-c=1", "-nolocalimports",
		"-importcfg", imports, "-pack",
	}
	if len(pkg.EmbedPatterns) > 0 {
		if err := pkg.writeEmbedded(embed); err != nil {
			return err
		}
		args = append(args, "-embedcfg", embed)
	}
	for _, name := range pkg.GoFiles {
		from := pkg.Dir
		if name == file {
			from = dir
		}
		args = append(args, filepath.Join(from, name))
	}
	_, err := command(ctx, dir, "go", args...)
	return err
}

// language is a version of Go without its patch, as the compiler takes it.
func language(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// link links the program as the go command does.
func (p program) link(ctx context.Context) error {
	imports := p.file + ".importcfg"
	if err := writeImports(imports, p.objects, nil); err != nil {
		return err
	}
	args := []string{"tool", "link", "-o", p.file, "-importcfg", imports, "-buildmode=exe", "-s", "-w",
		"-X=testing.testBinary=1"}
	if p.main.DefaultGODEBUG != "" {
		args = append(args, "-X=runtime.godebugDefault="+p.main.DefaultGODEBUG)
	}
	_, err := command(ctx, filepath.Dir(p.file), "go", append(args, p.main.Export)...)
	return err
}

// writeImports writes where the compiler and the linker find each package.
func writeImports(file string, objects, mapped map[string]string) error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(mapped)) {
		if actual, _, _ := strings.Cut(mapped[name], " "); actual != name {
			fmt.Fprintf(&b, "importmap %s=%s\n", name, actual)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		fmt.Fprintf(&b, "packagefile %s=%s\n", name, objects[name])
	}
	return os.WriteFile(file, []byte(b.String()), 0o600)
}

// writeEmbedded writes which files each pattern of the package embeds.
func (p builtPackage) writeEmbedded(file string) error {
	config := struct {
		Patterns map[string][]string
		Files    map[string]string
	}{make(map[string][]string), make(map[string]string)}
	for _, pattern := range p.EmbedPatterns {
		for _, name := range p.EmbedFiles {
			plain := strings.TrimPrefix(pattern, "all:")
			if matched, err := path.Match(plain, name); err != nil || !matched && !strings.HasPrefix(name, plain+"/") {
				continue
			}
			config.Patterns[pattern] = append(config.Patterns[pattern], name)
			config.Files[name] = filepath.Join(p.Dir, filepath.FromSlash(name))
		}
	}
	content, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode what %s embeds: %w", p.ImportPath, err)
	}
	return os.WriteFile(file, content, 0o600)
}

// command runs a command and returns what it printed; its error is errNotRelinked with
// what it said.
func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	var problems lastBytes
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, &problems
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s %s: %w\n%s%s", errNotRelinked, name, strings.Join(args[:min(2, len(args))], " "), err,
			tail(string(out), 5), tail(string(problems.kept), 5))
	}
	return out, nil
}
