package bad

import (
	"os"
	"testing"
)

func TestAlwaysFails(t *testing.T) { t.Error("got 3, want 4") }

// TestFailsOnce fails until the file that it leaves is there.
func TestFailsOnce(t *testing.T) {
	name := os.Getenv("LUCK")
	if _, err := os.Stat(name); err == nil {
		return
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Error("bad luck")
}
