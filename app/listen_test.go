package app

import (
	"os"
	"path/filepath"
	"testing"
)

// The socket is made for its owner alone; its mode is not changed afterwards.
func TestSocketIsMadePrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := listenSocket(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket has mode %v, %v", info.Mode(), err)
	}
}
