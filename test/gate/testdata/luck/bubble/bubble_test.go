package bubble

import (
	"os"
	"testing"
	"testing/synctest"
)

// TestFailsOnceInABubble fails until the file that it leaves is there.
func TestFailsOnceInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := os.Getenv("LUCK") + "-in-a-bubble"
		if _, err := os.Stat(name); err == nil {
			return
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Error("bad luck in virtual time")
	})
}
