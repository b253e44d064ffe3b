package supportbundle

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// MaxArchive bounds all files of an archive together, in bytes before they are
// squeezed.
const MaxArchive = 256 << 20

// Folder is a place in an archive, "" for its top, and what lies there.
type Folder struct {
	Name  string
	Files []File
}

// Archive writes a tar.gz below root. Its first file, INDEX, begins with title
// and says of every other how long it is, or why it is not there. When wall is the
// same so are the bytes.
func Archive(w io.Writer, root, title string, wall time.Time, folders []Folder) error {
	squeezed := gzip.NewWriter(w)
	archive := tar.NewWriter(squeezed)
	put := func(name, text string) error {
		h := &tar.Header{Name: root + "/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: wall, Format: tar.FormatPAX}
		if err := archive.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		_, err := io.WriteString(archive, text)
		return err
	}
	var index strings.Builder
	fmt.Fprintln(&index, title)
	var members []File
	total := 0
	for _, folder := range folders {
		for _, f := range folder.Files {
			name := plainName(f.Name)
			if folder.Name != "" {
				name = plainName(folder.Name) + "/" + name
			}
			if total += len(f.Text); f.Error == "" && total > MaxArchive {
				f.Error = fmt.Sprintf("all would have more than %d bytes", MaxArchive)
			}
			if f.Error != "" {
				fmt.Fprintf(&index, "%-24s missing: %s\n", name, strings.Join(strings.Fields(f.Error), " "))
				continue
			}
			fmt.Fprintf(&index, "%-24s %d bytes\n", name, len(f.Text))
			members = append(members, File{Name: name, Text: f.Text})
		}
	}
	err := put("INDEX", index.String())
	for _, f := range members {
		if err == nil {
			err = put(f.Name, f.Text)
		}
	}
	return errors.Join(err, archive.Close(), squeezed.Close())
}

// plainName is a name that lies in its folder and nowhere else.
func plainName(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if strings.Trim(plain, ".") == "" {
		return "_"
	}
	return plain
}
