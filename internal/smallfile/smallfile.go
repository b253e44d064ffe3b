// Package smallfile reads files that have no business being large.
package smallfile

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Read returns what a file holds, at most so many bytes, and what the file was before it
// was read: a change under way shows at the next look. The error names the file.
func Read(path string, most int64) (text []byte, info os.FileInfo, err error) {
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
	return text, info, err
}
