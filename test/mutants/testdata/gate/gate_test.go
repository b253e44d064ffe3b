package gate

import "testing"

func TestOldTokenStaysOut(t *testing.T) {
	if MayOpen(1, 2) {
		t.Error("an older token opened the gate")
	}
}

func TestAlwaysFails(t *testing.T) {
	t.Error("broken without any mutant")
}
