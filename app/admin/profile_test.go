package admin

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"runtime/pprof"
	"strings"
	"testing"
)

// TestProfiles: each kind is a compressed message, as pprof reads it, which names what it
// counts; what cannot be taken is refused by the name of its field.
func TestProfiles(t *testing.T) {
	h := (&Control{}).Handler()
	counts := map[string]string{"cpu": "nanoseconds", "heap": "inuse_space", "allocs": "alloc_space",
		"goroutine": "goroutine"}
	for _, kind := range Profiles() {
		w := send(h, "GET", "/v1/debug/profile?kind="+kind+"&seconds=1", "")
		z, err := gzip.NewReader(w.Body)
		if err != nil || w.Code != http.StatusOK {
			t.Errorf("%s: %d: %v", kind, w.Code, err)
			continue
		}
		if text, err := io.ReadAll(z); err != nil || !bytes.Contains(text, []byte(counts[kind])) {
			t.Errorf("%s: %d bytes that do not name %s: %v", kind, len(text), counts[kind], err)
		}
	}
	for query, want := range map[string]string{
		"":                      `kind: \"\" is no profile; one of cpu, heap, allocs, goroutine`,
		"kind=../heap":          `kind: `,
		"kind=cpu&seconds=0":    `seconds: \"0\" is not a number from 1 to 60`,
		"kind=cpu&seconds=61":   `seconds: `,
		"kind=cpu&seconds=soon": `seconds: `,
	} {
		if w := send(h, "GET", "/v1/debug/profile?"+query, ""); w.Code != http.StatusBadRequest ||
			!strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// TestOneProfileOfTheProcessor: a second one is refused while the first is taken.
func TestOneProfileOfTheProcessor(t *testing.T) {
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		t.Fatal(err)
	}
	defer pprof.StopCPUProfile()
	if w := send(
		(&Control{}).Handler(), "GET", "/v1/debug/profile?kind=cpu&seconds=1", ""); w.Code != http.StatusConflict {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
