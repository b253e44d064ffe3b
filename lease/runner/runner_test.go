//go:build e2e

package runner_test

import (
	"os"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testwait"
)

// TestCodeIsTheProgramsOwn: what it exits with, what ended it, or that there is none.
func TestCodeIsTheProgramsOwn(t *testing.T) {
	b := newBench(t)
	for want, command := range map[int][]string{
		0:   {"true"},
		7:   {"sh", "-c", "exit 7"},
		137: {"sh", "-c", "kill -9 $$"},
		127: {"no-such-program"},
		126: {"/etc/passwd"},
	} {
		r := b.launch(t, "h1", "0s", command...)
		if code := r.code(t); code != want {
			t.Errorf("%v: code %d, want %d: %s", command, code, want, r.talk)
		}
		if ends := b.Ends(name); time.Until(ends) > 0 {
			t.Errorf("%v has ended, and the lease is held for another %v", command, time.Until(ends))
		}
	}
}

// TestProgramKnowsItsToken, and until when it is held, as /proc/uptime counts.
func TestProgramKnowsItsToken(t *testing.T) {
	b := newBench(t)
	r := b.launch(t, "h1", "0s", "sh", "-c", `read up _ </proc/uptime
		echo "$TRIVET_FENCING_TOKEN $(awk "BEGIN {left = $TRIVET_LEASE_DEADLINE - $up; print(left > 0 && left <= 1.4 ? \"held\" : left)}")"`)
	if code := r.code(t); code != 0 || !regexp.MustCompile(`(?m)^107 held$`).MatchString(r.talk.String()) {
		t.Errorf("code %d: %s", code, r.talk)
	}
}

// TestSignalsAreForwarded to the program, which decides.
func TestSignalsAreForwarded(t *testing.T) {
	b := newBench(t)
	for i, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM, syscall.SIGHUP} {
		r := b.launch(t, "h1", "0s", "sh", "-c",
			"trap 'exit 31' USR1; trap 'exit 32' TERM; trap 'exit 33' HUP; echo ready; while :; do sleep 0.01; done")
		testwait.Until(t, "the program is ready", func() bool { return r.talk.String() != "" })
		r.signal(s)
		if code := r.code(t); code != 31+i {
			t.Errorf("%v: code %d: %s", s, code, r.talk)
		}
	}
}

// TestUnreachable: a program is dead when the lease may be another's, also one that
// ignores TERM.
func TestUnreachable(t *testing.T) {
	for _, how := range []string{"obedient", "stubborn"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t)
			r := b.worker(t, "h1", how)
			b.cut("h1")
			if code := r.code(t); code != codeLost {
				t.Errorf("code %d: %s", code, r.talk)
			}
			b.endedInTime(t)
		})
	}
}

// endedInTime checks that nothing was written after the lease's end, and tells by how
// much.
func (b *bench) endedInTime(t *testing.T) {
	t.Helper()
	b.noneLeft(t)
	last, ends := b.last(t).at, b.Ends(name)
	if !last.Before(ends) {
		t.Errorf("written %v after the lease's end", last.Sub(ends))
	}
	t.Logf("the last line is of %v after the deadline, %v before the lease's end",
		last.Sub(ends.Add(-margin)).Round(time.Millisecond), ends.Sub(last).Round(time.Millisecond))
}

// TestRenewedProgramRunsOn: each renewal moves the moment at which the guard ends the
// program.
func TestRenewedProgramRunsOn(t *testing.T) {
	b := newBench(t)
	r := b.worker(t, "h1")
	first := b.last(t).at
	testwait.Until(t, "the program works beyond its first lease", func() bool { return b.last(t).at.Sub(first) > ttl })
	r.signal(syscall.SIGTERM)
	r.code(t)
	b.noneLeft(t)
}

// TestStoppedRunner: the guard ends the program without it, and it knows when it goes
// on.
func TestStoppedRunner(t *testing.T) {
	b := newBench(t)
	r := b.worker(t, "h1", "stubborn")
	r.signal(syscall.SIGSTOP)
	b.endedInTime(t)
	r.signal(syscall.SIGCONT)
	if code := r.code(t); code != codeLost {
		t.Errorf("code %d: %s", code, r.talk)
	}
}

// TestKilledRunner: nobody renews any more, so the program is ended at once.
func TestKilledRunner(t *testing.T) {
	b := newBench(t)
	r := b.worker(t, "h1")
	r.signal(syscall.SIGKILL)
	killed := time.Now()
	b.noneLeft(t)
	if late := b.last(t).at.Sub(killed); late > margin/2 {
		t.Errorf("the program went on for %v", late)
	}
}

// TestKilledRunnerOfAStubbornProgram: KILL after the time of grace.
func TestKilledRunnerOfAStubbornProgram(t *testing.T) {
	b := newBench(t)
	r := b.worker(t, "h1", "stubborn")
	r.signal(syscall.SIGKILL)
	b.endedInTime(t)
}

// TestKilledGuard: the program dies with it, and so does what left its group.
func TestKilledGuard(t *testing.T) {
	b := newBench(t)
	r := b.worker(t, "h1", "stubborn", "both")
	testwait.Until(t, "both work", func() bool { return len(b.workers(t)) == 2 })
	if err := syscall.Kill(r.guard(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := r.code(t); code != codeFailed {
		t.Errorf("code %d: %s", code, r.talk)
	}
	for pid := range b.workers(t) {
		if alive(pid) {
			t.Errorf("process %d runs on", pid)
		}
	}
	if ends := b.Ends(name); time.Until(ends) > 0 {
		t.Error("the lease was not released")
	}
}

// TestStoppedGuard: the runner kills it when it does nothing at the deadline.
func TestStoppedGuard(t *testing.T) {
	b := newBench(t)
	r := b.worker(t, "h1", "stubborn")
	if err := syscall.Kill(r.guard(t), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.cut("h1")
	if code := r.code(t); code != codeLost {
		t.Errorf("code %d: %s", code, r.talk)
	}
	b.endedInTime(t)
}

// TestWhatAProgramLeavesBehind is killed before the lease is released.
func TestWhatAProgramLeavesBehind(t *testing.T) {
	for _, how := range []string{"escape", "group"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t)
			command := []string{os.Args[0], "work", b.file, "escape"}
			if how == "group" {
				command = []string{"sh", "-c", `trap "" TERM; "$0" work "$1" & while ! test -s "$1"; do sleep 0.01; done`,
					os.Args[0], b.file}
			}
			r := b.launch(t, "h1", "0s", command...)
			if code := r.code(t); code != 0 {
				t.Errorf("code %d: %s", code, r.talk)
			}
			for pid := range b.workers(t) {
				if alive(pid) {
					t.Errorf("process %d runs on", pid)
				}
			}
		})
	}
}

// TestTakenOver: KILL when the next renewal is refused.
func TestTakenOver(t *testing.T) {
	b := newBench(t)
	r := b.worker(t, "h1", "stubborn")
	b.Grant(name, "h1", time.Minute)
	taken := time.Now()
	if code := r.code(t); code != codeLost {
		t.Errorf("code %d: %s", code, r.talk)
	}
	b.noneLeft(t)
	if late := b.last(t).at.Sub(taken); late > ttl-margin {
		t.Errorf("it went on for %v", late)
	}
}

// TestTakenOverWithAStoppedGuard: the program is killed when the next renewal is refused, and
// does not go on until the deadline of a lease that is another's.
func TestTakenOverWithAStoppedGuard(t *testing.T) {
	b := newBench(t)
	r := b.worker(t, "h1", "stubborn")
	if err := syscall.Kill(r.guard(t), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	deadline := b.Ends(name).Add(-margin)
	b.Grant(name, "h1", time.Minute)
	if code := r.code(t); code != codeLost {
		t.Errorf("code %d: %s", code, r.talk)
	}
	b.noneLeft(t)
	if last := b.last(t).at; !last.Before(deadline) {
		t.Errorf("lost-with-a-stopped-guard: it went on until %v after the deadline", last.Sub(deadline))
	}
}

// TestHeldByAnother: refused at once, or waited for until a signal comes.
func TestHeldByAnother(t *testing.T) {
	b := newBench(t)
	b.Grant(name, "h2", time.Hour)
	if code := b.launch(t, "h1", "0s", "true").code(t); code != codeRefused {
		t.Errorf("code %d", code)
	}
	r := b.launch(t, "h1", "-1ns", "true")
	testwait.Until(t, "it asks", func() bool { return b.Questions() > 2 })
	r.signal(syscall.SIGTERM)
	if code := r.code(t); code != 128+int(syscall.SIGTERM) {
		t.Errorf("code %d: %s", code, r.talk)
	}
}

// TestNoOlderTokenAfterANewer: two runners contend, and whatever befalls the one that
// has the lease, it writes nothing any more when the other has begun.
func TestNoOlderTokenAfterANewer(t *testing.T) {
	b := newBench(t)
	holders := []*run{b.worker(t, "h0", "stubborn"), nil}
	for i, befalls := range []func(*run){
		func(r *run) { r.signal(syscall.SIGSTOP) },
		func(r *run) { r.signal(syscall.SIGKILL) },
		func(r *run) {
			if err := syscall.Kill(r.guard(t), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
		func(*run) { b.cut("h3") },
	} {
		next := b.launch(t, "h"+string(rune('1'+i)), "-1ns", os.Args[0], "work", b.file, "stubborn")
		token := b.last(t).token
		befalls(holders[0])
		testwait.Until(t, "the other works", func() bool { return b.last(t).token > token })
		holders[0].signal(syscall.SIGCONT)
		holders[0] = next
	}
	newest := uint64(0)
	for _, l := range b.lines(t) {
		if l.token < newest {
			t.Fatalf("token %d wrote after %d", l.token, newest)
		}
		newest = l.token
	}
	t.Logf("%d lines of tokens up to %d", len(b.lines(t)), newest)
}
