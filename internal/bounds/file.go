package bounds

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// ReadFile returns what a file of text holds, at most so many bytes, without a byte order mark, and
// what the file was before it was read: a change under way shows at the next look. The error names the file.
func ReadFile(path string, most int64) (text []byte, info os.FileInfo, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	text, err = io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return WithoutMark(text), info, err
}

// WithoutMark returns a text without the byte order mark that editors of Windows put in front of it.
func WithoutMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }
