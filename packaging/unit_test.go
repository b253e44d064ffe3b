package main

import (
	"os"
	"regexp"
	"testing"
)

// TestUnitRestartsAfterSIGPIPE: systemd takes it for an orderly end, after which Restart=on-failure does nothing.
func TestUnitRestartsAfterSIGPIPE(t *testing.T) {
	unit, err := os.ReadFile("files/trivet.service")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^RestartForceExitStatus=SIGPIPE$`).Match(unit) {
		t.Error("unit-restarts-after-sigpipe: the unit does not say so")
	}
}
