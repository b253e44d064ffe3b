package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var hermeticFixtures = []fixture{
	{"spared by its tag", "hermetic", "app/x_test.go",
		"//go:build e2e && linux\n\npackage app\n\nimport \"os/exec\"\n\nvar _ = exec.Command(\"true\")\n", nil},
	{"other tags", "hermetic", "app/x_test.go",
		"//go:build !race\n\npackage app\n\nimport \"os/exec\"\n\nvar _ = exec.Command(\"true\")\n", []int{7}},
	{"not without the tag", "hermetic", "app/x_test.go",
		"//go:build !e2e\n\npackage app\n\nimport \"os/exec\"\n\nvar _ = exec.Command(\"true\")\n", []int{7}},
	{"product", "hermetic", "app/x.go", "package app\n\nimport \"os/exec\"\n\nfunc run() { _ = exec.Command(\"true\") }\n",
		nil},
	{"a harness that no test imports", "hermetic", "test/stress/x.go",
		"package main\n\nimport \"os/exec\"\n\nfunc run() { _ = exec.Command(\"true\") }\n", nil},
	{"processes", "hermetic", "app/x_test.go", `package app

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestA(t *testing.T) {
	_ = exec.Command("true").Run()
	_ = exec.CommandContext(context.Background(), "true")
	_, _ = os.StartProcess("true", nil, nil)
	_, _ = syscall.ForkExec("true", nil, nil)
	_, _ = exec.LookPath("true")
}
`, []int{12, 13, 14, 15}},

	{"elapsed", "hermetic", "app/x_test.go", `package app

import (
	"testing"
	"time"
)

func TestA(t *testing.T) {
	began := time.Now()
	deadline := began.Add(time.Second)
	if time.Since(began) > time.Second {
		t.Error("late")
	}
	if took := time.Since(began); took.Seconds() >= 3 {
		t.Error("late")
	}
	var all []time.Duration
	for range 3 {
		all = append(all, time.Now().Sub(began).Round(time.Second))
	}
	if max(all[0], time.Hour) < time.Minute || time.Now().After(deadline) {
		t.Error("early")
	}
	for _, took := range all {
		func() { _ = 2*took <= time.Second }()
	}
}
`, []int{11, 14, 21, 21, 25}},
	{"no limit", "hermetic", "app/x_test.go", `package app

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestA(t *testing.T) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		if time.Since(began) > time.Second {
			t.Error("late")
		}
		settled(began)
	})
	took := time.Since(began)
	t.Log(took, took.String() == "1s")
	if n := entries(took); n < 3 || certificate().NotAfter.Before(began) {
		t.Error(n)
	}
}

func settled(began time.Time) bool { return time.Since(began) > time.Minute }

func virtual(began time.Time) bool {
	return time.Since(began) > time.Minute // in a bubble
}
`, nil},

	{"deadlines", "hermetic", "app/x_test.go", `package app

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/test/testwait"
)

func TestA(t *testing.T) {
	const limit = time.Minute
	_, _ = context.WithTimeout(t.Context(), 5*time.Second)
	_, _ = net.DialTimeout("tcp", "", time.Minute)
	var c net.Conn
	_ = c.SetReadDeadline(time.Now().Add(testwait.Limit))
	_ = http.Client{Timeout: 1500 * time.Millisecond}

	_, _ = context.WithTimeout(t.Context(), testwait.Bound(5*time.Second))
	_, _ = context.WithTimeout(t.Context(), 500*time.Millisecond)
	_, _ = context.WithTimeout(t.Context(), limit)
	_ = c.SetDeadline(time.Time{})
	synctest.Test(t, func(t *testing.T) {
		_, _ = context.WithTimeout(t.Context(), 5*time.Second)
	})
}
`, []int{16, 17, 19, 20}},
	{"ports", "hermetic", "app/x_test.go", `package app

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestA(t *testing.T) {
	ln, _ := net.Listen("tcp", "127.0.0.1:0")
	address := "http://" + ln.Addr().String()
	_ = ln.Close()
	_, _ = http.Get(address)
}

func TestB(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	_, _ = http.Get(gone.URL)
}

func free(n int) (all []string) {
	for range n {
		conn, _ := net.ListenPacket("udp", "127.0.0.1:0")
		defer conn.Close()
		all = append(all, conn.LocalAddr().String())
	}
	return all
}

func one() (address string) {
	ln, _ := net.ListenTCP("tcp", &net.TCPAddr{})
	defer ln.Close()
	address = ln.Addr().String()
	return
}

func again(at string) (net.Listener, error) { return net.Listen("tcp", at) }

func fixed() {
	_, _ = net.Listen("tcp", "127.0.0.1:8080")
	_, _ = net.ListenUDP("udp", &net.UDPAddr{Port: 53})
	_ = http.Server{Addr: ":6385"}
	_ = &http.Server{Addr: "[::1]:http"}
}
`, []int{14, 20, 29, 36, 39, 42, 43, 44, 45}},
	{"ports that are held", "hermetic", "app/x_test.go", `package app

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestA(t *testing.T) {
	ln, _ := net.Listen("tcp", "127.0.0.1:0")
	defer ln.Close()
	t.Cleanup(func() { ln.Close() })
	address := ln.Addr().String()
	_, _ = http.Get(address)
	server := httptest.NewServer(nil)
	resp, err := http.Get(server.URL)
	server.Close()
	if err != nil {
		t.Fatal(resp)
	}
	server = httptest.NewTLSServer(nil)
	_, _ = http.Get(server.URL)
	_, _ = net.Listen("unix", address)
	_ = http.Server{Addr: "127.0.0.1:0"}
}

func serve() string {
	ln, _ := net.Listen("tcp", "127.0.0.1:0")
	go func() { _ = ln.Close() }()
	return ln.Addr().String()
}
`, nil},
}

// TestHarnessOfATestIsHermetic: a harness is judged because a test imports it,
// directly or through another harness, and a test that calls what starts a process
// in its package is found.
func TestHarnessOfATestIsHermetic(t *testing.T) {
	tree := NewTree(".")
	for name, src := range map[string]string{
		"app/x.go": "package app\n\nimport \"os/exec\"\n\nfunc start() { _ = exec.Command(\"true\") }\n\nfunc run() { start() }\n",
		"app/x_test.go": "package app\n\nimport \"" + ours +
			"test/outer\"\n\nfunc use() { outer.Use() }\n\nfunc call() { run() }\n",
		"app/tagged_test.go": "//go:build e2e\n\npackage app\n\nimport _ \"" + ours + "test/slow\"\n",
		"test/outer/x.go":    "package outer\n\nimport _ \"" + ours + "test/inner\"\n",
		"test/inner/x.go":    "package inner\n\nimport \"os/exec\"\n\nvar _ = exec.Command(\"true\")\n",
		"test/slow/x.go":     "package slow\n\nimport \"os/exec\"\n\nvar _ = exec.Command(\"true\")\n",
		"test/simtest/x.go":  "package simtest\n",
	} {
		if err := tree.Add(name, []byte(src)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, finding := range Check(tree) {
		if finding.Rule == "hermetic" {
			got = append(got, finding.File)
		}
	}
	if len(got) != 2 || got[0] != "app/x_test.go" || got[1] != "test/inner/x.go" {
		t.Errorf("found in %q", got)
	}
}

// TestHermeticExceptions: each is of a file that exists, and has a reason.
func TestHermeticExceptions(t *testing.T) {
	kinds := map[string]bool{ofProcess: true, ofElapsed: true, ofReuse: true, ofFixed: true, ofLimit: true}
	for _, e := range hermeticExceptions {
		path, _, _ := strings.Cut(e.place, ":")
		if _, err := os.Stat(filepath.Join(moduleRoot(t), path)); err != nil || !kinds[e.kind] || e.why == "" {
			t.Errorf("%+v: a file, a kind and a reason are wanted (%v)", e, err)
		}
	}
}

// TestExceptionThatExcusesNothing is a finding.
func TestExceptionThatExcusesNothing(t *testing.T) {
	tree := NewTree(".")
	if err := tree.Add("app/x_test.go",
		[]byte("package app\n\nimport \"os/exec\"\n\nfunc run() { _ = exec.Command(\"true\") }\n")); err != nil {
		t.Fatal(err)
	}
	report := &Report{rule: "hermetic", tree: tree}
	judgeHermetic(tree, report, []hermeticException{
		{"app/x_test.go:run", ofProcess, "used"},
		{"app/x_test.go", ofElapsed, "not used"},
		{"gone/x_test.go", ofElapsed, "no such file in this tree"},
	})
	if len(report.findings) != 1 || report.findings[0].Line != 1 {
		t.Errorf("%v", report.findings)
	}
}
