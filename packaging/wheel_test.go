package main

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestPythonVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v0.1.0":                             "0.1.0",
		"v0.1.0-rc.1":                        "0.1.0rc1",
		"v0.1.0-rc.1+dirty":                  "0.1.0rc1+dirty",
		"v0.1.0+20261121140246.37d3b057d827": "0.1.0+20261121140246.37d3b057d827",
	} {
		if got := pythonVersion(version); got != want {
			t.Errorf("pythonVersion(%q) is %q, want %q", version, got, want)
		}
	}
}

// TestWheel reads the wheel as an installer does: each file is listed with its sum, and
// Tooz finds the driver by its entry point.
func TestWheel(t *testing.T) {
	at := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
	var builds []string
	for range 2 {
		p, err := readPython("..", "v0.1.0")
		if err != nil {
			t.Fatal(err)
		}
		file, err := p.wheel(t.TempDir(), at)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		builds = append(builds, string(text))
	}
	if builds[0] != builds[1] {
		t.Error("two wheels of the same sources differ")
	}
	z, err := zip.NewReader(strings.NewReader(builds[0]), int64(len(builds[0])))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(text)
	}
	const info = "tooz_trivet-0.1.0.dist-info/"
	record := files[info+"RECORD"]
	for name, text := range files { // order-free: each by itself
		sum := sha256.Sum256([]byte(text))
		if line := fmt.Sprintf("%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text)); name !=
			info+"RECORD" && !strings.Contains(record, line) {
			t.Errorf("RECORD does not list %s with its sum", name)
		}
	}
	for name, want := range map[string]string{
		info + "METADATA": "Name: tooz-trivet\nVersion: 0.1.0\n", info + "WHEEL": "Root-Is-Purelib: true",
		info + "entry_points.txt": "trivet = tooz_trivet.driver:TrivetDriver",
		info + "LICENSE":          "Apache License", "tooz_trivet/driver.py": "class TrivetDriver(",
		"tooz_trivet/__init__.py": "trivet://",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s in the wheel has no %q", name, want)
		}
	}
}
