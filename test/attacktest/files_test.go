//go:build e2e

package attacktest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// mostOfACommand is the memory that a command may have resident over a file that others
// wrote, in MiB.
const mostOfACommand = 400

// hostileFiles are files that others may have written, by what is wrong with them.
func (p *trivetProcess) hostileFiles(good string) map[string]string {
	p.Helper()
	const deep = 1 << 20
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for n := range 12 {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", n+1, n+1, strings.Repeat(fmt.Sprintf("*a%d, ", n), 9))
	}
	files := map[string]string{
		"deep-json":       strings.Repeat(`[`, deep),
		"deep-objects":    strings.Repeat(`{"a":`, deep),
		"deep-yaml":       strings.Repeat(`{a: `, deep/8),
		"aliases":         laughs,
		"nothing":         "",
		"zeros":           strings.Repeat("\x00", 1<<20),
		"long-line":       `{"ironic_inspector": "x", "rules": 1, "records": 1}` + "\n" + strings.Repeat("x", 20<<20),
		"many-of-nothing": `{"ironic_inspector": "x", "rules": 1000000000, "records": 1000000000}` + "\n",
		"half-a-snapshot": good[:len(good)/2],
	}
	for n := range 16 { // lengths and counts among the bytes that are overwritten
		at := n * (len(good) - 8) / 16
		files[fmt.Sprintf("snapshot-%d", n)] = good[:at] + "\xff\xff\xff\xff\xff\xff\xff\xff" + good[at+8:]
	}
	for name, text := range files {
		p.write("hostile-"+name, text)
	}
	for name, target := range map[string]string{"device": "/dev/zero", "circle": "hostile-circle"} {
		if err := os.Symlink(target, p.path("hostile-"+name)); err != nil {
			p.Fatal(err)
		}
		files[name] = ""
	}
	p.write("hostile-sparse", "")
	if err := os.Truncate(p.path("hostile-sparse"), 1<<33); err != nil {
		p.Fatal(err)
	}
	files["sparse"] = ""
	return files
}

// TestHostileFilesAreRefused hands files that others wrote to each command that reads one.
// It is refused with an error, in bounded memory.
func TestHostileFilesAreRefused(t *testing.T) {
	p := newTrivetProcess(t, "name: h1\napi:\n  auth_strategy: noauth\n")
	p.run(0, "init", "-q")
	p.serve()
	p.run(0, "snapshot", "save", p.path("good"))
	files, tried := p.hostileFiles(p.read("good")), 0
	p.stop()
	for name := range files { // order-free: each on its own
		for _, words := range []string{
			"rule import FILE --dry-run --server http://127.0.0.1:1", "node expect FILE --dry-run --server http://127.0.0.1:1",
			"snapshot verify FILE", "snapshot inspect FILE", "snapshot restore FILE --dry-run", "config check --config FILE",
			"join 127.0.0.1:1 --token-file FILE", "haconfig lint FILE", asImport + " load FILE", asImport + " config FILE",
		} {
			tried++
			cmd := p.command(strings.Fields(strings.ReplaceAll(words, "FILE", p.path("hostile-"+name)))...)
			if strings.Contains(words, "config check") || strings.HasPrefix(words, asImport) {
				cmd.Args = cmd.Args[:len(cmd.Args)-2] // without --config
			}
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			if err, late := testwait.Take(limit, ended, "the command ends"); late != nil {
				t.Errorf("hostile-files: trivet %s, of %s: %v, %v", words, name, late, cmd.Process.Kill())
				continue
			} else if err == nil && !harmlessFile(name, words) {
				t.Errorf("hostile-files: trivet %s takes %s: %.300s", words, name, &out)
			}
			if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); !ok || used.Maxrss>>10 > mostOfACommand {
				t.Errorf("hostile-files: trivet %s, of %s: %d MiB resident, %d allowed", words, name, used.Maxrss>>10,
					mostOfACommand)
			}
			if text := out.String(); strings.Contains(text, "goroutine ") || strings.Contains(text, "fatal error") {
				t.Errorf("hostile-files: trivet %s, of %s: %.2000s", words, name, text)
			}
		}
	}
	testenv.Count(t, "security.hostile_files", float64(tried))
}

// harmlessFile reports whether a file is nothing to a command: an empty list, or nothing to
// judge.
func harmlessFile(name, words string) bool {
	return strings.HasPrefix(words, "haconfig lint") || name == "nothing" && !strings.HasPrefix(words, "snapshot") ||
		strings.HasPrefix(words, asImport+" config")
}
