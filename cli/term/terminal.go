// Package term is what the verbs of the command line have in common: the terminal
// they speak to, the peer they ask, and how they end.
//
// Data goes to standard output, messages to standard error. Every refusal is an
// error line, a hint line, and an exit code that scripts can rely on
// (docs/design.md#exit-codes).
package term

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/internal/bounds"
)

// Terminal is what one run of the command may touch, and how it prints.
type Terminal struct {
	In        io.Reader
	Out       io.Writer // data
	Err       io.Writer // talk
	Env       []string
	Wall      func() time.Time
	Random    io.Reader
	Transport http.RoundTripper // to the introspection API; nil: the network
	Version   string            // of this program
	Program   string            // its name, with which messages begin; "" is trivet

	Format string // --output
	Color  string // --color
	Quiet  bool   // --quiet
}

func (t *Terminal) program() string { return cmp.Or(t.Program, "trivet") }

// How the lines begin that trivet prints for people.
const (
	TalkError   = "trivet: error: "
	TalkHint    = "trivet: hint: "
	TalkWarning = "trivet: warning: "
)

// Warn is talk that --quiet does not silence.
func (t *Terminal) Warn(format string, args ...any) {
	fmt.Fprintf(t.Err, t.program()+": warning: "+format+"\n", args...)
}

// Say is talk: what was done and what comes next.
func (t *Terminal) Say(format string, args ...any) {
	if !t.Quiet {
		fmt.Fprintf(t.Err, t.program()+": "+format+"\n", args...)
	}
}

// maxAnswer bounds what a person types, in bytes.
const maxAnswer = 4096

// Ask asks the person at the terminal and reports whether the answer is want.
func (t *Terminal) Ask(question, want string) bool {
	fmt.Fprint(t.Err, question)
	var answer []byte
	for letter := make([]byte, 1); len(answer) <= maxAnswer; { // what follows the line is the next answer
		if _, err := io.ReadFull(t.In, letter); err != nil {
			return false
		}
		if letter[0] == '\n' {
			return strings.TrimSpace(string(answer)) == want
		}
		answer = append(answer, letter[0])
	}
	return false
}

// Variable returns an environment variable of the command line itself.
func (t *Terminal) Variable(name, otherwise string) string {
	for i := len(t.Env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(t.Env[i], name+"="); ok && value != "" {
			return value
		}
	}
	return otherwise
}

// Input opens a file, or standard input for -.
func (t *Terminal) Input(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(t.In), nil
	}
	return os.Open(name)
}

// ReadInput reads a file, or standard input for -, of no more than so many bytes.
func (t *Terminal) ReadInput(name string, most int64) ([]byte, error) {
	if name != "-" {
		text, _, err := bounds.ReadFile(name, most)
		return text, err
	}
	text, err := io.ReadAll(io.LimitReader(t.In, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("standard input: longer than %d bytes", most)
	}
	return bounds.WithoutMark(text), err
}

// IsTerminal says whether in is a terminal.
func IsTerminal(in any) bool {
	f := fileOf(in)
	if f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
