package bounds

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An editor of Windows puts a mark in front of a text, which is no part of it.
func TestFileOfWindows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for content, want := range map[string]string{"\ufeffadmin:x\r\n": "admin:x\r\n", "a\ufeff": "a\ufeff", "\ufeff": "",
		"": ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, _, err := ReadFile(path, 20); err != nil || string(text) != want {
			t.Errorf("byte-order-mark: %q is read as %q (%v)", content, text, err)
		}
	}
}

// A file is read up to its bound, and what is too long or not there is named.
func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("12345678"), 0o640); err != nil {
		t.Fatal(err)
	}
	text, info, err := ReadFile(path, 8)
	if err != nil || string(text) != "12345678" || info.Mode().Perm() != 0o640 {
		t.Errorf("%q, %v, %v", text, info, err)
	}
	if _, info, err := ReadFile(path, 7); err == nil || !strings.Contains(err.Error(), path+" has more than 7 bytes") ||
		info == nil {
		t.Errorf("a file that is too long: %v, %v", info, err)
	}
	if _, _, err := ReadFile(path+".none", 8); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), path+".none") {
		t.Errorf("no file: %v", err)
	}
}
