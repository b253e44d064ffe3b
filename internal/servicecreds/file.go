package servicecreds

import (
	"fmt"
	"os"
	"strings"

	"github.com/trivet-ha/trivet/internal/bounds"
)

// Bounds of files, in bytes.
const (
	MaxPassword = 4 << 10
	MaxPEM      = 4 << 20 // of certificates or a key
)

// Password is one that stands in the configuration, or in a file of its own.
type Password struct {
	Text   string
	File   string // "" unless there is one; it counts then
	Option string // that names the file, for messages: ending in _file; the option for Text has the rest as its name
	// Reads are those of File by all copies of the Password: a share that hangs keeps none of them for
	// longer than bounds.FileLimit, or twice that behind another. nil: each waits for the file system.
	Reads *bounds.Calls
}

// Read returns the password, "" for none. A file is read each time. The error
// names option and file, and quotes nothing of what the file holds.
func (p Password) Read() (string, error) {
	if p.File == "" {
		return p.Text, nil
	}
	var content []byte
	var failed error
	read := func() { content, _, failed = bounds.ReadFile(p.File, MaxPassword) }
	if p.Reads == nil {
		read()
	} else if err := p.Reads.Do(bounds.FileLimit, read); err != nil {
		return "", fmt.Errorf("%s: read %s: %w", p.Option, p.File, err)
	}
	if failed != nil {
		return "", fmt.Errorf("%s: %w", p.Option, failed)
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if secret == "" || strings.ContainsAny(secret, "\r\n\x00") {
		return "", fmt.Errorf("%s: %s does not hold one line; write the password and nothing else", p.Option, p.File)
	}
	return secret, nil
}

// Source names the option that holds the password, or the file and the option that
// names it, for messages of the form "log in with SOURCE to …". It quotes no password.
func (p Password) Source() string {
	if p.File != "" {
		return fmt.Sprintf("the password in %s, which %s names,", p.File, p.Option)
	}
	return strings.TrimSuffix(p.Option, "_file")
}

// sameFile reports whether a file was neither replaced nor written in between.
func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
