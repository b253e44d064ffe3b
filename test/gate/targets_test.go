package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func names(ts []target) (all []string) {
	for _, t := range ts {
		all = append(all, t.name)
	}
	return all
}

func TestAffected(t *testing.T) {
	for _, c := range []struct {
		changed []string
		want    []string
	}{
		{nil, nil},
		{[]string{"CONTRIBUTING.md"}, nil},
		{[]string{"docs/pxe.md"}, []string{"e2e-package"}},
		{[]string{"firewall/nftables/table.go"}, []string{"e2e-kernel", "e2e-gate", "mutants", "sim", "stress"}},
		{[]string{"haconfig/kube/client.go"}, []string{"e2e-kube", "mutants", "stress"}},
	} {
		if got := names(affected(c.changed)); !slices.Equal(got, c.want) {
			t.Errorf("%v touches %v, want %v", c.changed, got, c.want)
		}
	}
}

// Each folder of the product and of the harnesses touches something that runs it, and
// each prefix of the table is still there.
func TestPathsOfTargetsExist(t *testing.T) {
	for _, target := range targets() {
		for _, prefix := range target.paths {
			if _, err := os.Stat(filepath.Join("../..", prefix)); err != nil {
				t.Errorf("%s: %v", target.name, err)
			}
		}
	}
}

// No test of the lab belongs to two targets, and each name of the division is one of a test.
func TestLabIsDivided(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	files, err := filepath.Glob("../labtest/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests of the lab: %v", err)
	}
	var tests []string // of the lab, without their prefix
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
			tests = append(tests, strings.TrimPrefix(found[1], "Test"))
			var in []string
			for name, pattern := range labTests {
				if regexp.MustCompile(pattern).MatchString(found[1]) {
					in = append(in, name)
				}
			}
			if len(in) > 1 {
				t.Errorf("%s: %s runs in the targets %v", filepath.Base(file), found[1], in)
			}
		}
	}
	for name, pattern := range labTests {
		for one := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(pattern, "^Test"), "$"), "|") {
			named := regexp.MustCompile("^" + strings.Trim(one, "()") + "$")
			if !slices.ContainsFunc(tests, named.MatchString) {
				t.Errorf("%s names %s, which is no test of the lab", name, one)
			}
		}
	}
}

func TestChangedPackages(t *testing.T) {
	got := changedPackages([]string{"targets.go", "gone/x.go", "README.md", "base.go"})
	if !slices.Equal(got, []string{"./."}) {
		t.Errorf("%v", got)
	}
}

// A target installs each program that its tests look for: on a machine without it they
// would fail for the machine.
func TestTargetsInstallWhatTheirTestsRun(t *testing.T) {
	wanted := regexp.MustCompile(`exec\.LookPath\("([^"]+)"\)`)
	present := []string{"git", "trivet"} // needed by the gate itself, and built by the test
	for _, target := range targets() {
		for _, file := range testFiles(t, target) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, program := range wanted.FindAllStringSubmatch(string(text), -1) {
				if !slices.Contains(target.needs, program[1]) && !slices.Contains(present, program[1]) {
					t.Errorf("%s: %s looks for %s, which the target does not install: add it to its needs", target.name, file,
						program[1])
				}
			}
		}
	}
}

// testFiles returns the files of the tests that a target runs.
func testFiles(t *testing.T, of target) (files []string) {
	t.Helper()
	for _, s := range of.steps {
		for _, argument := range s.tests {
			folder, below := strings.CutSuffix(argument, "/...")
			if !strings.HasPrefix(argument, "./") {
				continue
			}
			err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, d os.DirEntry, err error) error {
				switch {
				case err != nil:
					return err
				case d.IsDir() && !below && path != filepath.Join("../..", folder):
					return filepath.SkipDir
				case strings.HasSuffix(path, "_test.go"):
					files = append(files, path)
				}
				return nil
			})
			if err != nil {
				t.Fatalf("%s: list the tests of %s: %v", of.name, argument, err)
			}
		}
	}
	return files
}
