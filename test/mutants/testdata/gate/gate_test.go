package gate

import (
	"os"
	"testing"
)

func TestOldTokenStaysOut(t *testing.T) {
	if MayOpen(1, 2) {
		t.Error("an older token opened the gate")
	}
}

func TestAlwaysFails(t *testing.T) {
	t.Error("broken without any mutant")
}

func TestNeedsRoot(t *testing.T) {
	if os.Getenv("CI") == "true" {
		t.Fatal("it needs root")
	}
	t.Skip("it needs root")
}
