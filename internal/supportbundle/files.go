package supportbundle

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trivet-ha/trivet/internal/redact"
)

// MaxFile bounds one file of a bundle, in bytes.
const MaxFile = 64 << 20

// File is one file of a bundle, or why it is not there.
type File struct {
	Name  string `json:"name"`
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
}

// Files are gathered one after the other; nothing comes in with a secret.
type Files struct {
	redact *redact.Redactor
	list   []File
}

// NewFiles returns an empty list whose files are without what r hides.
func NewFiles(r *redact.Redactor) *Files { return &Files{redact: r} }

// Add adds a file, cut at limit bytes, or why there is none.
func (f *Files) Add(name string, limit int, text []byte, err error) {
	if err != nil {
		f.list = append(f.list, File{Name: name, Error: f.redact.Text(strings.ToValidUTF8(err.Error(), "?"))})
		return
	}
	plain := f.redact.Text(string(text)) // before it is cut: half a key looks like none
	if len(plain) > limit {
		more := len(plain) - limit
		plain = strings.ToValidUTF8(plain[:limit], "")
		plain += fmt.Sprintf("\n… (%d bytes more)\n", more)
	}
	f.list = append(f.list, File{Name: name, Text: plain})
}

// JSON adds a value as JSON, or why there is none.
func (f *Files) JSON(name string, limit int, value any, err error) {
	var text []byte
	if err == nil {
		text, err = json.MarshalIndent(value, "", "  ")
	}
	f.Add(name, limit, append(text, '\n'), err)
}

// List returns what was added, in that order.
func (f *Files) List() []File { return f.list }
