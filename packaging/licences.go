package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// linked is a module that a program contains, with the texts of its licence.
type linked struct {
	path, version string
	spdx          string   // an SPDX expression
	texts         []string // of its files, in their order
}

// minCoverage is how much of a licence file, in percent, must be the words of
// licences that are known. Copyright lines are the rest.
const minCoverage = 75

// licenceFile matches what a module says of its licence, patents and notices in
// its root.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-.].*)?$`)

// linkedModules finds the modules in a binary, the standard library among them,
// and their licences in the module cache. A module whose licence is not known is
// an error: nothing is shipped without its licence.
func (r *release) linkedModules(ctx context.Context, binary string) ([]linked, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read build information: %w", err)
	}
	words := []string{"mod", "download", "-json"}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		words = append(words, m.Path+"@"+m.Version)
	}
	out, err := r.output(ctx, nil, "go", words...)
	if err != nil {
		return nil, err
	}
	root, err := r.output(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	std, err := licensed("std", strings.TrimPrefix(info.GoVersion, "go"), strings.TrimSpace(string(root)))
	if err != nil {
		return nil, err
	}
	modules := []linked{std}
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var at struct{ Path, Version, Dir string }
		if err := list.Decode(&at); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read what 'go mod download' printed: %w", err)
		}
		m, err := licensed(at.Path, at.Version, at.Dir)
		if err != nil {
			return nil, err
		}
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b linked) int { return strings.Compare(a.path, b.path) })
	return modules, nil
}

// licensed reads the licence files in the root of a module.
func licensed(path, version, dir string) (linked, error) {
	m := linked{path: path, version: version}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return m, fmt.Errorf("licence of %s: %w", path, err)
	}
	var ids []string
	for _, e := range entries { // sorted by name
		if e.IsDir() || !licenceFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return m, fmt.Errorf("licence of %s: %w", path, err)
		}
		m.texts = append(m.texts, string(text))
		if kind := strings.ToLower(e.Name()); strings.HasPrefix(kind, "notice") || strings.HasPrefix(kind, "patents") {
			continue
		}
		ids = append(ids, identify(text)...)
	}
	slices.Sort(ids)
	if m.spdx = strings.Join(slices.Compact(ids), " AND "); m.spdx == "" {
		return m, fmt.Errorf(
			"licence of %s %s: no file in its root holds a licence that is known; find out what it is before you ship it", path,
			version)
	}
	return m, nil
}

// identify returns the SPDX identifiers of the licences that a text consists of,
// none if much of it is something else.
func identify(text []byte) (ids []string) {
	found := licensecheck.Scan(text)
	if found.Percent < minCoverage {
		return nil
	}
	for _, match := range found.Match {
		ids = append(ids, match.ID)
	}
	return ids
}

// thirdParty writes one document with the licences of all modules in a program. A text
// that several modules have stands there once.
func thirdParty(name string, modules []linked) []byte {
	var b strings.Builder
	fmt.Fprintf(&b,
		"Third-party licences\n\nThe program %s is linked statically with these Go modules. The texts follow.\n\n", name)
	owners := make(map[string][]string)
	var texts []string // in the order of their first owners
	for _, m := range modules {
		name := m.path + " " + m.version
		fmt.Fprintf(&b, "  %s: %s\n", name, m.spdx)
		for _, text := range m.texts {
			if owners[text] == nil {
				texts = append(texts, text)
			}
			owners[text] = append(owners[text], name)
		}
	}
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("-", 79), strings.Join(owners[text], "\n"),
			strings.Trim(strings.ReplaceAll(text, "\r\n", "\n"), "\n"))
	}
	return []byte(b.String())
}
