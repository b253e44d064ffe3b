package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// What two tests record at the same time is all there, and of one name the latest.
func TestFiguresOfTwoWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures.json")
	t.Setenv(figuresFile, path)
	const each = 100
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for n := range each {
				Figure(t, fmt.Sprintf("area.%d_%03d", w, n), float64(n), "ms", AtMost(50))
				Took(t, fmt.Sprintf("area.%d_again", w), time.Duration(n)*time.Second, time.Minute)
			}
		})
	}
	writers.Wait()
	all, err := ReadFigures(path)
	if err != nil || len(all) != 2*(each+1) {
		t.Fatalf("%d figures, %v; want %d", len(all), err, 2*(each+1))
	}
	for _, want := range []Recorded{
		{Name: "area.0_050", Value: 50, Unit: "ms", Goal: "<= 50", Met: true},
		{Name: "area.1_051", Value: 51, Unit: "ms", Goal: "<= 50"},
		{Name: "area.1_again", Value: each - 1, Unit: "s", Goal: "<= 60"},
	} {
		want.Test = t.Name()
		var got Recorded
		for _, r := range all {
			if r.Name == want.Name {
				got = r
			}
		}
		if got.Time.IsZero() {
			t.Errorf("%s: it does not say when it was recorded", want.Name)
		}
		got.Time = time.Time{}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// A writer that was killed leaves a line that is cut off. It spoils no other.
func TestFiguresBesideABrokenLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures.json")
	t.Setenv(figuresFile, path)
	Figure(t, "a.rate", 2, "x", AtLeast(1.5))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\n{\"name\":\"b.cut\",\"va"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the broken line is the last one, then it is not
		all, err := ReadFigures(path)
		if err != nil || len(all) != 1 || all[0].Name != "a.rate" || all[0].Goal != ">= 1.5" || !all[0].Met {
			t.Errorf("%+v, %v", all, err)
		}
		Figure(t, "a.rate", 3, "x", AtLeast(1.5))
	}
	if all, err := ReadFigures(path); err != nil || len(all) != 1 || all[0].Value != 3 {
		t.Errorf("after another: %+v, %v", all, err)
	}
}

// Without a variable the file lies in dist/verify of the module, if that is there.
func TestFiguresBesideTheModule(t *testing.T) {
	t.Setenv(figuresFile, "")
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pkg, verify := filepath.Join(root, "a", "b"), filepath.Join(root, "dist", "verify")
	if err := os.MkdirAll(pkg, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(pkg)
	Figure(t, "a.b", 1, "s", AtMost(1)) // logged alone
	if _, err := os.Stat(verify); err == nil {
		t.Error("a test made dist/verify")
	}
	if err := os.MkdirAll(verify, 0o700); err != nil {
		t.Fatal(err)
	}
	Figure(t, "a.b", 1, "s", AtMost(1))
	if all, err := ReadFigures(filepath.Join(verify, "figures.json")); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := ReadFigures(filepath.Join(verify, "none.json")); err != nil || len(all) != 0 {
		t.Errorf("without a file: %+v, %v", all, err)
	}
}

// A count is read from the line in which a test logs it, and no other line has one.
func TestCountsAreReadBack(t *testing.T) {
	for line, want := range map[string]float64{
		"    chaos_test.go:64: " + CountLine("chaos.minutes", 10.25): 10.25, CountLine("a.large", 1e7) + "\n": 1e7,
	} {
		if name, got, ok := Counted(line); !ok || got != want || !strings.Contains(line, name) {
			t.Errorf("%q: %q %g %v", line, name, got, ok)
		}
	}
	for _, line := range []string{"", "counted", "counted all of it: 3", "counted a.b: many", "figure a.b: 3 s"} {
		if name, got, ok := Counted(line); ok {
			t.Errorf("%q: %q %g", line, name, got)
		}
	}
}
