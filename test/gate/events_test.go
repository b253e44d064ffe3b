package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// told writes events as go test -json does; words are Action, Test, Output.
func told(pkg string, events ...[3]string) string {
	var text strings.Builder
	for _, e := range events {
		fmt.Fprintf(&text, "{\"Action\":%q,\"Package\":%q,\"Test\":%q,\"Output\":%q,\"Elapsed\":1}\n", e[0],
			modulePath+"/"+pkg, e[1], e[2])
	}
	return text.String()
}

// lines is what a summary would say of the failures.
func lines(r *results) (all []string) {
	for _, f := range r.failures {
		all = append(all, f.what()+": "+f.First)
	}
	return all
}

func TestFailuresAreNamed(t *testing.T) {
	pass := [3]string{"pass", "TestGood", ""}
	for _, c := range []struct {
		name, events string
		want         []string
	}{
		{"nothing failed", told("fsm", [3]string{"run", "TestGood", ""}, pass, [3]string{"output", "", "ok  \tfsm\t1s\n"},
			[3]string{"pass", "", ""}), nil},
		{
			"the message of a part of a test",
			told("fsm", [3]string{"run", "TestX", ""}, [3]string{"run", "TestX/part", ""},
				[3]string{"output", "TestX/part", "    x_test.go:7: got 3, want 4\n"},
				[3]string{"fail", "TestX/part", ""}, [3]string{"fail", "TestX", ""}, pass, [3]string{"fail", "", ""}),
			[]string{"fsm TestX: x_test.go:7: got 3, want 4"},
		},
		{
			"a test that hangs",
			told("app", [3]string{"run", "TestHangs", ""},
				[3]string{"output", "TestHangs", "panic: test timed out after 30m0s\n"}, [3]string{"fail", "", ""}),
			[]string{"app: the package ended while TestHangs ran: panic: test timed out after 30m0s"},
		},
		{
			"a panic after which others did not run",
			told("app", [3]string{"run", "TestX", ""}, [3]string{"output", "TestX", "panic: deadlock\n"},
				[3]string{"fail", "TestX", ""},
				[3]string{"output", "", "panic: deadlock\n"}, [3]string{"fail", "", ""}),
			[]string{"app TestX: panic: deadlock", "app: panic: deadlock"},
		},
		{
			"a process that the kernel killed",
			told("app", [3]string{"output", "", "signal: killed\n"}, [3]string{"fail", "", ""}),
			[]string{"app: signal: killed"},
		},
		{
			"what does not compile",
			`{"ImportPath":"p [p.test]","Action":"build-output","Output":"# p\n"}` + "\n" +
				`{"ImportPath":"p [p.test]","Action":"build-output","Output":"p/x.go:3:2: undefined: y\n"}` + "\n" +
				`{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}` + "\n",
			[]string{"p: p/x.go:3:2: undefined: y"},
		},
	} {
		r := newResults(new(bytes.Buffer))
		if err := r.follow(strings.NewReader(c.events)); err != nil || !slices.Equal(lines(r), c.want) {
			t.Errorf("%s: %q, want %q (%v)", c.name, lines(r), c.want, err)
		}
	}
}

func TestFloodOfOutputIsBounded(t *testing.T) {
	r := newResults(new(bytes.Buffer))
	for range 100 {
		r.note(event{Action: "output", Package: "p", Test: "TestX", Output: strings.Repeat("x", 10<<10)})
	}
	if n := r.said["p TestX"].Len(); n > maxLog+10<<10 {
		t.Errorf("%d bytes are kept, %d are the limit", n, maxLog)
	}
}

func TestSummarySaysWhoseFaultItIs(t *testing.T) {
	for _, c := range []struct {
		failed []string
		code   int
	}{
		{nil, exitPassed},
		{[]string{"fsm TestX: x_test.go:7: no"}, exitChange},
		{[]string{"app: signal: killed"}, exitEnvironment},
		{[]string{"app (under -race): signal: killed"}, exitEnvironment},
		{[]string{"app TestChild: x_test.go:7: the child ended: signal: killed"}, exitChange},
	} {
		s := &stage{name: "test", failed: c.failed}
		s.blame(t.Context())
		if s.code() != c.code {
			t.Errorf("%q: exit %d, want %d", c.failed, s.code(), c.code)
		}
	}
}
