//go:build e2e

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// module makes a module of one package with this test and goes there.
func module(t *testing.T, body string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.24\n",
		"m.go":   "package m\n",
		"m_test.go": "package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n\t\"time\"\n)\n\nvar _, _ = os.Getenv, time.Sleep\n\nfunc TestM(t *testing.T) {\n" +
			body + "\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// quiet is a run of one module without the race detector, which takes long to build.
func quiet(count int) options {
	return options{packages: []string{"./..."}, plain: []string{"./..."}, count: count, limit: time.Minute}
}

func TestRunCountsFailures(t *testing.T) {
	module(t, `	if err := os.Mkdir("first", 0o700); err != nil { t.Fatal("not the first run") }`)
	if err := run(t.Context(), quiet(1)); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), quiet(2))
	if err == nil || err.Error() != "4 failures" { // the test and its package, in two rounds
		t.Errorf("%v", err)
	}
}

// The environment of the command is that of the tests.
func TestRunOnOneProcessor(t *testing.T) {
	t.Setenv("GOMAXPROCS", "1")
	module(t, `	if os.Getenv("GOMAXPROCS") != "1" { t.Fatal(os.Environ()) }`)
	if err := run(t.Context(), quiet(1)); err != nil {
		t.Error(err)
	}
}

// The race detector is there, but for the packages that go without it.
func TestRunWithTheRaceDetector(t *testing.T) {
	module(t, `	n := 0
	done := make(chan bool)
	go func() { n++; close(done) }()
	n++
	<-done`)
	if err := run(t.Context(), quiet(1)); err != nil {
		t.Error(err)
	}
	o := quiet(1)
	o.plain = nil
	if err := run(t.Context(), o); err == nil {
		t.Error("a race was not detected")
	}
}

// TestRunEndsInTime: a test that is under way when the time is over is stopped,
// and is no failure, as it were if the limit of a package stopped it.
func TestRunEndsInTime(t *testing.T) {
	module(t, `	time.Sleep(10 * time.Minute)`)
	o := quiet(5)
	o.within = 3 * time.Second
	if err := run(t.Context(), o); err != nil {
		t.Error(err)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, o := range map[string]options{
		"no round":   {packages: []string{"./..."}, count: 0},
		"no package": {packages: []string{"./nosuch"}, count: 1},
	} {
		if err := run(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
