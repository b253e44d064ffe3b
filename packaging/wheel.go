package main

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// driver is the folder of the driver of Tooz.
const driver = "contrib/tooz-trivet"

// python is the driver as Python's installers unpack it: files by their paths in a
// directory of packages, without the list of them that belongs to a wheel.
type python struct {
	version string // as PEP 440 has it
	info    string // the directory with what it says of itself
	files   map[string]string
}

// readPython reads the driver from below root.
func readPython(root, version string) (python, error) {
	p := python{version: pythonVersion(version), files: make(map[string]string)}
	p.info = "tooz_trivet-" + p.version + ".dist-info/"
	sources, err := filepath.Glob(filepath.Join(root, driver, "tooz_trivet", "*.py"))
	if err != nil || len(sources) == 0 {
		return p, fmt.Errorf("no source of the driver of Tooz in %s: %w", driver, err)
	}
	readme := filepath.Join(root, driver, "README.md")
	for _, source := range append(sources, readme, filepath.Join(root, "LICENSE")) {
		text, err := os.ReadFile(source)
		if err != nil {
			return p, fmt.Errorf("read the driver of Tooz: %w", err)
		}
		switch source {
		case readme:
			p.files[p.info+"METADATA"] = fmt.Sprintf(
				"Metadata-Version: 2.1\nName: tooz-trivet\nVersion: %s\nSummary: Tooz on Trivet's leases\n"+
					"Home-page: https://github.com/trivet-ha/trivet\nLicense: Apache-2.0\nRequires-Python: >=3.9\nRequires-Dist: tooz>=2.8\nRequires-Dist: urllib3>=1.26\n"+
					"Description-Content-Type: text/markdown\n\n%s", p.version, text)
		case filepath.Join(root, "LICENSE"):
			p.files[p.info+"LICENSE"] = string(text)
		default:
			p.files["tooz_trivet/"+filepath.Base(source)] = string(text)
		}
	}
	p.files[p.info+"entry_points.txt"] = "[tooz.backends]\ntrivet = tooz_trivet.driver:TrivetDriver\n"
	return p, nil
}

// pythonVersion turns the version of a Go module into one of PEP 440, where a
// pre-release is written 0.1.0rc1.
func pythonVersion(version string) string {
	number, pre, found := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	if !found {
		return number
	}
	pre, build, _ := strings.Cut(pre, "+")
	pre = strings.ReplaceAll(strings.ReplaceAll(pre, ".", ""), "-", "")
	if build != "" {
		build = "+" + build
	}
	return number + pre + build
}

// paths are those of the files, in order.
func (p python) paths() []string { return slices.Sorted(maps.Keys(p.files)) }

// unpack writes the files below a directory, but for the licence, which a Debian package
// has elsewhere.
func (p python) unpack(dir string) error {
	for _, name := range p.paths() {
		if name == p.info+"LICENSE" {
			continue
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, []byte(p.files[name]), 0o644)
		}
		if err != nil {
			return fmt.Errorf("unpack the driver of Tooz: %w", err)
		}
	}
	return nil
}

// wheel writes the wheel into a directory and returns its path. The same sources at
// the same time make the same bytes.
func (p python) wheel(dir string, at time.Time) (file string, err error) {
	file = filepath.Join(dir, "tooz_trivet-"+p.version+"-py3-none-any.whl")
	out, err := os.Create(file)
	if err != nil {
		return "", fmt.Errorf("write the wheel: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	z := zip.NewWriter(out)
	put := func(name, text string) error {
		w, err := z.CreateHeader(
			&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at.UTC(), ExternalAttrs: 0o100644 << 16})
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			return fmt.Errorf("write %s into the wheel: %w", path.Base(name), err)
		}
		return nil
	}
	p.files[p.info+"WHEEL"] = "Wheel-Version: 1.0\nGenerator: trivet\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
	var record strings.Builder
	for _, name := range p.paths() {
		sum := sha256.Sum256([]byte(p.files[name]))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(p.files[name]))
		if err := put(name, p.files[name]); err != nil {
			return "", err
		}
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", p.info)
	if err := put(p.info+"RECORD", record.String()); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", fmt.Errorf("write the wheel: %w", err)
	}
	return file, nil
}
