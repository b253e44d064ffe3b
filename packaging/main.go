package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxPackage bounds a .deb, in bytes: it crosses slow management networks.
const maxPackage = 10e6

// bounded refuses a file that is larger than most, in bytes.
func bounded(path string, most int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("measure what was built: %w", err)
	}
	if info.Size() > most {
		return fmt.Errorf(
			"%s has %d bytes, and %d are allowed: 'go tool nm -size -sort size' on a build with symbols shows what a new dependency costs",
			filepath.Base(path), info.Size(), most)
	}
	return nil
}

func main() {
	out := flag.String("out", "dist", "directory for the results; those of an earlier build are removed")
	arches := flag.String("arch", "amd64,arm64", "architectures to build for")
	notes := flag.String("notes", "",
		"build nothing: if CHANGELOG.md begins with a release, print its version and write its changes to this file")
	wheel := flag.Bool("wheel", false, "build nothing but the wheel of the driver of Tooz, of no version")
	image := flag.Bool("image", false, "build nothing but the image for containers and what it is made of")
	report := flag.Bool("report", false,
		"build nothing: print the modules, versions and licences of the programs that the arguments name")
	flag.Parse()
	var err error
	switch {
	case *notes != "":
		err = announce(".", *notes, os.Stdout)
	case *report:
		r := release{env: cleanEnv(os.Environ())}
		err = r.report(context.Background(), flag.Args(), os.Stdout)
	case *wheel:
		err = onlyWheel(*out)
	default:
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		err = run(ctx, *out, strings.Split(*arches, ","), *image, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "packaging: error: %v\n", err)
		os.Exit(1)
	}
}

// run builds a release into out, or its image alone, and lists it on w.
func run(ctx context.Context, out string, arches []string, image bool, w io.Writer) (err error) {
	work, err := os.MkdirTemp("", "trivet-packaging-")
	if err != nil {
		return fmt.Errorf("make a directory to work in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := prepare(out); err != nil {
		return err
	}
	r := release{out: out, work: work, env: cleanEnv(os.Environ())}
	if err := r.build(ctx, arches); err != nil {
		return err
	}
	if !image {
		if err := r.packages(ctx, arches); err != nil {
			return err
		}
	}
	if err := r.image(ctx, arches); err != nil {
		return err
	}
	if err := writeSums(r.out); err != nil {
		return err
	}
	return r.list(w)
}

// onlyWheel builds the wheel alone, for tests of the driver.
func onlyWheel(out string) error {
	p, err := readPython(".", "v0")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make -out: %w", err)
	}
	_, err = p.wheel(out, time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)) // a zip knows no earlier time
	return err
}

// prepare makes the directory for the results, and removes earlier ones, so that
// the checksums are those of one build.
func prepare(out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make -out: %w", err)
	}
	for _, pattern := range []string{"trivet_*", "trivet-*", "tooz_trivet-*", "python3-tooz-trivet_*", sumsFile} {
		found, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil {
			return fmt.Errorf("look into -out: %w", err)
		}
		for _, path := range found {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("empty -out: %w", err)
			}
		}
	}
	return nil
}

// build makes the programs, and says of each what it is made of.
func (r *release) build(ctx context.Context, arches []string) error {
	if err := r.date(ctx); err != nil {
		return err
	}
	for _, arch := range slices.Concat(arches, []string{runtime.GOARCH}) { // the pages are made by a binary that runs here
		if err := r.binaries(ctx, arch); err != nil {
			return err
		}
	}
	if err := r.identify(ctx); err != nil {
		return err
	}
	for _, arch := range arches {
		for _, p := range programs() {
			if err := r.bill(p.name, arch); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(r.path("doc"), 0o755); err != nil {
		return fmt.Errorf("write licences: %w", err)
	}
	for name, modules := range r.modules {
		if err := writeCompressed(r.licences(name), thirdParty(name, modules)); err != nil {
			return err
		}
	}
	return nil
}

// packages makes those of all formats; of the driver of Tooz a wheel and a Debian package.
func (r *release) packages(ctx context.Context, arches []string) error {
	if err := r.documents(ctx, r.path(runtime.GOARCH, trivet)); err != nil {
		return err
	}
	for _, arch := range arches {
		for _, p := range programs() {
			for _, format := range []string{"deb", "rpm"} {
				if err := r.pack(ctx, p, arch, format); err != nil {
					return err
				}
			}
		}
	}
	p, err := readPython(".", r.version)
	if err != nil {
		return err
	}
	if err := p.unpack(r.path("python")); err != nil {
		return err
	}
	if _, err := p.wheel(r.out, r.at); err != nil {
		return err
	}
	return r.nfpm(ctx, "packaging/tooz.yaml", "deb", "PACKAGE_PYTHON="+r.path("python"))
}

// list names what was built and how large it is, and refuses what is too large.
func (r *release) list(w io.Writer) error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return fmt.Errorf("list -out: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("list -out: %w", err)
		}
		fmt.Fprintf(w, "%10d  %s\n", info.Size(), filepath.Join(r.out, e.Name()))
		if filepath.Ext(e.Name()) == ".deb" {
			if err := bounded(filepath.Join(r.out, e.Name()), maxPackage); err != nil {
				return err
			}
		}
	}
	return nil
}
