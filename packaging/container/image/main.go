// Command image packs the files of a release into an image for containers: an archive
// of the OCI image layout, with one image for each architecture, which 'podman load',
// 'skopeo copy oci-archive:…' and 'ctr images import' take. It needs no engine and asks
// no registry. Run it by 'make image', in the root of the repository.
//
// It is a function of its arguments and of the files that they name: owners and times
// are not taken from the file system.
package main

import (
	"bytes"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is who runs the program unless the engine is told otherwise: of no name, so that
// files which root makes are not handed to it. The elector's pods name it, too.
const user = 950

// about is what all images of an archive say of themselves.
type about struct {
	version string
	created time.Time
}

func main() {
	out := flag.String("out", "", "archive to write")
	version := flag.String("version", "", "of the program, as 'trivet version' says it")
	created := flag.Int64("created", 0, "time of everything in it, in seconds since 1970")
	flag.Parse()
	err := pack(*out, about{*version, time.Unix(*created, 0).UTC()}, flag.Args())
	if err != nil {
		fmt.Fprintf(os.Stderr, "image: error: %v\n", err)
		os.Exit(1)
	}
}

// pack writes the archive of the trees, each ARCHITECTURE=DIRECTORY.
func pack(out string, a about, trees []string) (err error) {
	all := v1.ImageIndex(empty.Index)
	for _, t := range trees {
		arch, dir, _ := strings.Cut(t, "=")
		image, err := a.image(arch, dir)
		if err != nil {
			return fmt.Errorf("image for %s: %w", arch, err)
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	all = mutate.IndexMediaType(all, types.OCIImageIndex)
	// An archive names what is in it; the name of the registry is the operator's.
	named := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: all, Descriptor: v1.Descriptor{
		Annotations: map[string]string{"org.opencontainers.image.ref.name": strings.ReplaceAll(a.version, "+", "-")}}})
	work, err := os.MkdirTemp("", "trivet-image-")
	if err != nil {
		return fmt.Errorf("make a directory to work in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if _, err := layout.Write(work, named); err != nil {
		return fmt.Errorf("write the layout: %w", err)
	}
	entries, err := tree(work)
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return fmt.Errorf("write -out: %w", err)
	}
	return errors.Join(writeTar(f, entries, a.created), f.Close())
}

// image is that of one architecture: one layer, with the files of dir, the certificates
// of public authorities, and the directories that a peer writes to.
func (a about) image(arch, dir string) (v1.Image, error) {
	entries, err := tree(dir)
	if err != nil {
		return nil, err
	}
	var authorities bytes.Buffer // but for those that Mozilla trusts with reservations, which a file cannot express
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // no error is possible
		}
	}
	entries = append(entries,
		entry{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, text: authorities.Bytes()},
		entry{name: "etc/trivet/", mode: 0o755},
		entry{name: "run/trivet/", mode: 0o755, owner: user},
		entry{name: "tmp/", mode: 0o1777},
		entry{name: "var/lib/trivet/", mode: 0o700, owner: user})
	var layer bytes.Buffer
	if err := writeTar(&layer, entries, a.created); err != nil {
		return nil, err
	}
	packed, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: packed,
		History: v1.History{Created: v1.Time{Time: a.created}, CreatedBy: "make image"}})
	if err != nil {
		return nil, err
	}
	c, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created, c.Config = "linux", arch, v1.Time{Time: a.created}, a.config()
	return mutate.ConfigFile(image, c)
}

// config is what an engine is told.
func (a about) config() v1.Config {
	return v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		Env:        []string{"PATH=/usr/bin"},
		Entrypoint: []string{"/usr/bin/trivet"},
		Cmd:        []string{"serve"},
		StopSignal: "SIGTERM",
		Volumes:    map[string]struct{}{"/var/lib/trivet": {}},
		// The API, and peers among themselves: with the host's network nothing is published.
		ExposedPorts: map[string]struct{}{"5050/tcp": {}, "5055/tcp": {}, "7350/tcp": {}, "7351/tcp": {}, "7351/udp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "trivet",
			"org.opencontainers.image.description": "bare-metal introspection that stays up",
			"org.opencontainers.image.version":     a.version,
			"org.opencontainers.image.created":     a.created.Format(time.RFC3339),
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.source":      "https://github.com/trivet-ha/trivet",
			"dev.trivet.bill-of-materials":         "/usr/share/doc/trivet/trivet.cdx.json",
		},
	}
}

// tree lists the regular files below dir; programs are executable.
func tree(dir string) (entries []entry, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if strings.HasPrefix(name, "usr/bin/") {
			mode = 0o755
		}
		entries = append(entries, entry{name: name, mode: mode, text: text})
		return nil
	})
	return entries, err
}
