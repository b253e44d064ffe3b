package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// image makes the archive of an image for containers. The program that packs it is of a
// module of its own (container/), as nfpm is.
func (r *release) image(ctx context.Context, arches []string) error {
	out, err := filepath.Abs(r.out)
	if err != nil {
		return fmt.Errorf("make the image: %w", err)
	}
	words := []string{"run", "-C", "packaging/container", "-trimpath", "./image",
		"-out", filepath.Join(out, fmt.Sprintf("trivet_%s_oci.tar", packageVersion(r.version))),
		"-version", r.version, "-created", strconv.FormatInt(r.at.Unix(), 10)}
	for _, arch := range arches {
		dir, err := r.imageTree(arch)
		if err != nil {
			return fmt.Errorf("gather what the image for %s contains: %w", arch, err)
		}
		words = append(words, arch+"="+dir)
	}
	_, err = r.output(ctx, []string{"CGO_ENABLED=0"}, "go", words...)
	return err
}

// imageTree gathers the files of an architecture, and returns the directory: what
// engines and mirrors hand on is the image alone, so its licences and its bill of
// materials are in it.
func (r *release) imageTree(arch string) (dir string, err error) {
	dir = r.path("image", arch)
	doc := filepath.Join(dir, "usr/share/doc/trivet")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "usr/bin"), 0o755), os.MkdirAll(doc, 0o755)); err != nil {
		return "", err
	}
	for from, to := range map[string]string{ // order-free: distinct files
		r.path(arch, trivet):     filepath.Join(dir, "usr/bin", trivet),
		"LICENSE":                filepath.Join(doc, "LICENSE"),
		r.licences(trivet):       filepath.Join(doc, "third-party-licences.gz"),
		r.billPath(trivet, arch): filepath.Join(doc, "trivet.cdx.json"),
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}
