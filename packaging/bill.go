package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// bill is a bill of materials in CycloneDX 1.6: as much of it as a Go binary
// knows of itself. It does not say which module needs which: the binary does
// not know.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Serial     string      `json:"serialNumber"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []licence  `json:"licenses,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type licence struct {
	Expression string `json:"expression"` // of SPDX
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// billOf reads a Go binary and returns its bill of materials as JSON: a function
// of the binary, the version that it says of itself, the licences of what is in it,
// and the time.
func billOf(path, version string, modules []linked, at time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read build information: %w", err)
	}
	sum, err := sumOf(path)
	if err != nil {
		return nil, err
	}
	number := strings.TrimPrefix(info.GoVersion, "go") // version of the standard library
	std := purl("std", number)
	b := bill{
		Format: "CycloneDX", Spec: "1.6", Version: 1,
		Serial: "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceURL, []byte(info.Main.Path+"@"+sum)).String(),
		Metadata: metadata{Timestamp: at.Format(time.RFC3339),
			Component: application(info, filepath.Base(path), version, sum)},
		Components: []component{{Type: "library", Ref: std, Name: "std", Version: number, PURL: std}},
	}
	for _, m := range info.Deps {
		c, err := library(m)
		if err != nil {
			return nil, err
		}
		b.Components = append(b.Components, c)
	}
	for i := range b.Components { // all are libraries
		c := &b.Components[i]
		at := slices.IndexFunc(modules, func(m linked) bool { return m.path == c.Name && m.spdx != "" })
		if at < 0 {
			return nil, fmt.Errorf("bill of materials: no licence of %s is known", c.Name)
		}
		c.Licenses = []licence{{modules[at].spdx}}
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode bill of materials: %w", err)
	}
	return append(text, '\n'), nil
}

// application describes a binary itself, and how it was built.
func application(info *debug.BuildInfo, name, version, sum string) component {
	at := purl(info.Main.Path, version)
	if below := strings.TrimPrefix(info.Path, info.Main.Path+"/"); below != info.Path {
		at += "#" + below // the path of a package in its module
	}
	c := component{
		Type: "application", Name: name, Version: version, PURL: at,
		Hashes: []hash{{"SHA-256", sum}}, Licenses: []licence{{"Apache-2.0"}},
	}
	c.Ref = c.PURL
	for _, s := range info.Settings {
		c.Properties = append(c.Properties, property{"go:build:" + s.Key, s.Value})
	}
	return c
}

// library describes a module; where one was replaced, what stands in its place.
func library(m *debug.Module) (component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: purl(m.Path, m.Version)}
	c.Ref = c.PURL
	if sum, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
		raw, err := base64.StdEncoding.DecodeString(sum)
		if err != nil {
			return c, fmt.Errorf("checksum of %s: %w", m.Path, err)
		}
		// Of the module's tree, as in go.sum; cyclonedx-gomod writes it like this, too.
		c.Hashes = []hash{{"SHA-256", hex.EncodeToString(raw)}}
	}
	return c, nil
}

// purl is the package URL of a module. A plus sign in a version must not pass
// for a space.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}
