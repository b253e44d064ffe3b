package archtest

import "strings"

// reporterTests are two tests of package events as they were when they failed in
// every second run of five under the race detector, shortened.
const reporterTests = `package events_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// doer commits reports to a ledger, unless it has no leader.
type doer struct {
	l       *ledger
	down    error
	entries []int // events of each
}

func (d *doer) Do(_ context.Context, _ string, c fsm.Command) (fsm.Result, error) {
	if d.down != nil {
		return fsm.Result{}, d.down
	}
	d.entries = append(d.entries, len(c.(fsm.ReportEvents).Reports))
	d.l.commit(fsm.Header{Session: d.l.session}, c)
	return fsm.Result{}, nil
}

func TestReportsWaitForALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doer{l: newLedger(t), down: errors.New("no leader")}
		r := newReporter(t, d)
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go r.Run(ctx)
		happened := time.Now()
		r.Report(warn("First."))
		time.Sleep(time.Hour) // in a bubble
		for i := range events.MaxWaiting + 9 {
			r.Report(warn(fmt.Sprintf("%d.", i)))
		}
		// settle
		if len(d.entries) != 0 {
			t.Fatalf("%d entries without a leader", len(d.entries))
		}
		d.down = nil
		begin := d.l.view().Events().Last()
	})
}

func TestReportsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doer{l: newLedger(t)}
		r := newReporter(t, d)
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go r.Run(ctx)
		for range 10_000 {
			r.Report(warn(strings.Repeat("ä", fsm.MaxEventText)))
			time.Sleep(time.Millisecond) // in a bubble
		}
		// settle
		if n := len(d.entries); n < 9 || n > 10 {
			t.Errorf("10 s of reports made %d entries, want one a second", n)
		}
	})
}
`

var settleFixtures = []fixture{
	{"the reporter's tests", "settle", "api/events/x_test.go", reporterTests, []int{41, 62}},
	{"with a wait", "settle", "api/events/x_test.go", strings.ReplaceAll(reporterTests, "// settle", "synctest.Wait()"),
		nil},
	{"with a lock", "settle", "api/events/x_test.go",
		strings.ReplaceAll(reporterTests, "d.entries = append", "d.mu.Lock()\n\td.entries = append"), nil},
	{"no goroutine", "settle", "api/events/x_test.go", strings.ReplaceAll(reporterTests, "go r.Run", "r.Run"), nil},
	{"a test calls the fake", "settle", "api/events/x_test.go", reporterTests + "\nfunc call(d *doer) { d.Do() }\n", nil},
	{"variables", "settle", "app/x_test.go", `package app

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type fake struct{ n int }

func (f *fake) Told() { f.n++ }

func newFake() *fake { return new(fake) }

func TestA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told, own int
		var mu sync.Mutex
		f := newFake()
		settled := func() { synctest.Wait() }
		go func() {
			told++
			local := told
			local++
		}()
		go func() {
			mu.Lock()
			defer mu.Unlock()
			own++
		}()
		if told > 0 {
			t.Error("before any sleep")
		}
		for told < 3 {
			time.Sleep(time.Second)
		}
		t.Log(f.n)
		t.Log(own)
		settled()
		t.Log(told, f.n)
		time.Sleep(time.Second)
		for told == 0 {
			told := 1
			t.Log(told)
		}
		go f.run()
		t.Log(f.n)
	})
	told := 1
	time.Sleep(time.Second)
	t.Log(told)
}
`, []int{38, 43, 48}},
}
