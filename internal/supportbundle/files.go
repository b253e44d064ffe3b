package supportbundle

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxFile bounds one file of a bundle, in bytes.
const MaxFile = 64 << 20

// maxUnpacked bounds what one peer may send, in bytes before it was squeezed.
const maxUnpacked = 32 << 20

// File is one file of a bundle, or why it is not there.
type File struct {
	Name  string `json:"name"`
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
}

// Files are gathered one after the other; nothing comes in with a secret.
type Files struct {
	redact *Redactor
	list   []File
}

// NewFiles returns an empty list whose files are without what r hides.
func NewFiles(r *Redactor) *Files { return &Files{redact: r} }

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

// Pack squeezes files so that they have at most limit bytes: while they have more
// the longest one is left out, which is said in its place.
func Pack(files []File, limit int) ([]byte, error) {
	files = append([]File(nil), files...)
	for {
		packed, err := pack(files)
		if err != nil || len(packed) <= limit {
			return packed, err
		}
		longest := 0
		for i, f := range files {
			if len(f.Text) > len(files[longest].Text) {
				longest = i
			}
		}
		if len(files) == 0 || files[longest].Text == "" {
			return nil, fmt.Errorf("the names alone have %d bytes, at most %d are sent", len(packed), limit)
		}
		f := &files[longest]
		f.Error, f.Text = fmt.Sprintf("with its %d bytes it was too much to be sent; make a bundle on that host", len(f.Text)), ""
	}
}

func pack(files []File) ([]byte, error) {
	var out bytes.Buffer
	squeezed := gzip.NewWriter(&out)
	err := json.NewEncoder(squeezed).Encode(files)
	if err := errors.Join(err, squeezed.Close()); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}

// Unpack reads what Pack made.
func Unpack(packed []byte) ([]File, error) {
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(plain, maxUnpacked+1))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if len(text) > maxUnpacked {
		return nil, fmt.Errorf("unpack: more than %d bytes", maxUnpacked)
	}
	var files []File
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return files, nil
}
