package inspector

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// hostile returns documents that nobody in good faith sends; most of them as
// large as the API takes (8 MiB).
func hostile() map[string]string {
	const large = 8<<20 - 64<<10
	with := func(more string) string { return callback(macA, ","+more) }
	var keys strings.Builder
	for i := 0; keys.Len() < large; i++ {
		fmt.Fprintf(&keys, `"%x":1,`, i)
	}
	keys.WriteString(`"z":1`)
	return map[string]string{
		"depth of lists":              with(`"a":` + strings.Repeat("[", 1_000_000)),
		"depth of objects":            with(`"a":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)),
		"10^6 keys":                   with(keys.String()),
		"10^6 keys inside":            with(`"a":{` + keys.String() + "}"),
		"10^6 keys of small objects":  with(`"a":[` + strings.Repeat(`{"a":1},`, 1_000_000) + `1]`),
		"a key twice":                 with(`"a":1,"a":2`),
		"a key twice inside":          with(`"a":[{"b":{"c":1,"d":2,"c":1}}]`),
		"a key twice, escaped":        with(`"ab":1,"\u0061b":2`),
		"a key twice, quoted":         with(`"\"":1,"\u0022":2`),
		"the inventory twice":         with(`"inventory":{}`),
		"a key twice among many":      with(`"a":{` + keysUpTo(200) + `"k7":1}`),
		"invalid UTF-8":               with("\"a\":\"\xff\xfe\""),
		"invalid UTF-8 in a key":      with("\"\xc3\":1"),
		"a surrogate's bytes":         with("\"a\":\"\xed\xa0\x80\""),
		"NaN":                         with(`"a":NaN`),
		"Infinity":                    with(`"a":-Infinity`),
		"a number out of range":       with(`"a":1e999`),
		"a long exponent":             with(`"a":1e` + strings.Repeat("9", 1000)),
		"10^6 digits":                 with(`"a":` + strings.Repeat("9", 1_000_000)),
		"10^6 digits after the point": with(`"a":0.` + strings.Repeat("9", 1_000_000)),
		"a string of 8 MiB":           with(`"a":"` + strings.Repeat("x", large) + `"`),
		"a key of 8 MiB":              with(`"` + strings.Repeat("x", large) + `":1,"` + strings.Repeat("x", 10) + `":NaN`),
		"logs that are no logs":       with(`"a":{"logs":"` + strings.Repeat("x", 2<<20) + `"}`),
		"a zero byte":                 with("\"a\":\"\x00\""),
		"two documents":               callback(macA, "") + callback(macA, ""),
		"another encoding":            "\xff\xfe{\x00}\x00",
		"a byte order mark":           "\ufeff{}",
		"nothing but space":           strings.Repeat(" ", large),
	}
}

func keysUpTo(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, `"k%d":1,`, i)
	}
	return out.String()
}

// Hostile documents are refused with a reason, in bounded memory, and change
// nothing, whether they come from a ramdisk or from an operator.
func TestHostileDocuments(t *testing.T) {
	inRig(t, func(o *rig) {
		o.awaits(nodeA, macA)
		s := o.service()
		before, _ := o.raftLog.truth().Record(nodeA)
		index := o.raftLog.truth().Index()
		for name, body := range hostile() {
			var from, to runtime.MemStats
			runtime.ReadMemStats(&from)
			_, err := s.Continue(o.ctx, []byte(body))
			runtime.ReadMemStats(&to)
			said, ok := err.(*Refusal)
			if !ok || said.Status != 400 || !strings.HasPrefix(said.Message, "Invalid data: ") || len(said.Message) > 500 {
				t.Errorf("%s: %.600v", name, err)
			}
			// A few times what came: 16 of the largest are taken in at once.
			if took := to.TotalAlloc - from.TotalAlloc; took > 5*8<<20 {
				t.Errorf("%s: %d MiB were taken", name, took>>20)
			}
			if err := s.Reapply(o.ctx, nodeA, []byte(body)); err == nil || len(err.Error()) > 500 {
				t.Errorf("%s, reapplied: %v", name, err)
			}
		}
		if after, _ := o.raftLog.truth().Record(nodeA); fmt.Sprint(after) != fmt.Sprint(before) || o.raftLog.truth().QueueLength() != 0 {
			t.Errorf("%+v became %+v", before, after)
		}
		if n := o.raftLog.count(func(c fsm.Command) bool { return fsm.KindOf(c) == fsm.KindOf(introspection.Enqueue{}) }); n != 0 {
			t.Errorf("%d requests were queued, index %d", n, index)
		}
	})
}

// What is only odd is taken, and stays as it is.
func TestOddDocumentsAreTaken(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		o.work(func(*WorkerPool) {
			for _, more := range []string{
				`,"a":1.0e+3,"b":123456789012345678901234567890,"c":-0.0,"d":1e-300`,
				`,"a":"` + strings.Repeat("x", 1<<20-8) + `"`,
				`,"logs":"` + strings.Repeat("A", 4<<20) + `"`,
				`,"a":` + strings.Repeat("[", 90) + strings.Repeat("]", 90),
				`,"a":{` + keysUpTo(5000) + `"z":{"k1":1}},"z":{"k1":1}`,
				`,"":1,"\u0000":2,"\ud800":3,"é":"\u00e9"`,
			} {
				o.accept(nodeA, macA) // the pool is there to boot it
				o.becomes(nodeA, introspection.NodeWaiting, time.Second)
				if _, err := s.Continue(o.ctx, []byte(callback(macA, more))); err != nil {
					t.Fatalf("%.50s: %v", more, err)
				}
				o.becomes(nodeA, introspection.NodeFinished, time.Second)
				want := callback(macA, more)
				if strings.HasPrefix(more, `,"logs"`) {
					want = callback(macA, "")
				}
				if data, err := s.Data(o.ctx, nodeA, false, Linearizable); err != nil || string(data) != want && !strings.Contains(more, `\u0000`) {
					t.Errorf("%.50s became %.150s, %v", more, data, err)
				}
			}
		})
	})
}
