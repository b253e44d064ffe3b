package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module makes a module of one package with this test and goes there.
func module(t *testing.T, body string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.org/m\n\ngo 1.24\n",
		"m.go":      "package m\n",
		"m_test.go": "package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n\t\"time\"\n)\n\nvar _, _ = os.Getenv, time.Sleep\n\nfunc TestM(t *testing.T) {\n" + body + "\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// quiet is a run of one module without the race detector, which takes long to build.
func quiet(count int) options {
	return options{packages: "./...", plain: "./...", count: count, loops: 1, limit: time.Minute}
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

// A package in parts runs each part in a go test of its own, and every test once.
func TestRunInParts(t *testing.T) {
	module(t, `	f, err := os.OpenFile("ran", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil { t.Fatal(err) }
	if _, err := f.WriteString("M"); err != nil { t.Fatal(err) }
}

func TestN(t *testing.T) {
	if len(os.Args) == 0 { t.Fatal(time.Now()) }
	if err := os.WriteFile("other", []byte("N"), 0o600); err != nil { t.Fatal(err) }`)
	o := quiet(2)
	o.plain, o.divided, o.parts = "", "./...", "^TestM ^Test[^M]"
	groups, err := split(t.Context(), o)
	if err != nil || len(groups) != 2 || groups[0].run != "^TestM" || groups[1].run != "^Test[^M]" {
		t.Fatalf("%+v, %v", groups, err)
	}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"ran": "MM", "other": "N"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	o.parts = ""
	if err := run(t.Context(), o); err == nil {
		t.Error("-divided was taken without -parts")
	}
}

func TestRunOnOneProcessor(t *testing.T) {
	module(t, `	if os.Getenv("GOMAXPROCS") != "1" { t.Fatal(os.Environ()) }`)
	o := quiet(1)
	o.single = true
	if err := run(t.Context(), o); err != nil {
		t.Error(err)
	}
}

func TestColdCacheIsOfItsOwn(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	env, clean, err := environment(options{cold: true})
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimPrefix(env[len(env)-1], "GOCACHE=")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || filepath.Dir(dir) != os.TempDir() {
		t.Errorf("%s: %v %v", dir, left, err)
	}
	if err := clean(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it is left behind: %v", err)
	}
}

// TestRunEndsInTime: a test that is under way when the time is over is stopped,
// and is no failure.
func TestRunEndsInTime(t *testing.T) {
	module(t, `	time.Sleep(10 * time.Minute)`)
	o := quiet(5)
	o.within = 3 * time.Second
	began := time.Now()
	if err := run(t.Context(), o); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > o.within+2*killAfter {
		t.Errorf("it took %v", took)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, o := range map[string]options{
		"no round":   {packages: "./...", count: 0},
		"no package": {packages: "./nosuch", count: 1},
	} {
		if err := run(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestReport(t *testing.T) {
	var r results
	lines := `{"Action":"output","Package":"a","Test":"TestX","Output":"why\n"}
{"Action":"fail","Package":"a","Test":"TestX","Elapsed":1}
{"Action":"fail","Package":"a","Elapsed":2}
{"Action":"pass","Package":"b","Elapsed":3.04}
# not json
`
	for range 2 {
		if err := r.read(t.Context(), strings.NewReader(lines)); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	r.report(&out, 90*time.Second)
	for _, want := range []string{"       2        0         3s  b\n       2        2         2s  a\n", "stress: 4 runs of 2 packages, 2 failures, 1m30s\n", "failed: a TestX\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// A process that dies says why in the name of the test that it ran, which then
// neither passes nor fails.
func TestDyingProcessIsQuoted(t *testing.T) {
	var r results
	lines := `{"Action":"output","Package":"a","Test":"TestX","Output":"fatal error: stack overflow\n"}
{"Action":"output","Package":"b","Test":"TestX","Output":"runs on\n"}
`
	if err := r.read(t.Context(), strings.NewReader(lines)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r.printUnfinished(&out, "a")
	if got, want := out.String(), "unfinished: a TestX\nfatal error: stack overflow\n\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
