package labtest

import (
	"os"
	"path/filepath"
	"testing"
)

// The places where the tests of tier 2 stop a process are in the sources.
func TestStopsFitTheSource(t *testing.T) {
	for file := range stops() {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err == nil {
			_, err = withStops(file, string(text))
		}
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := withStops("failover/remedy.go", "package failover\n"); err == nil {
		t.Error("a source without its place is taken")
	}
}
