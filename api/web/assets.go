package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed assets
var embedded embed.FS

// assets are the files of the page, read once.
type assets struct {
	index   string            // the page itself, with the marks that index fills in
	files   map[string][]byte // the others, by name
	version string            // of all of them together
}

const nameOfIndex = "index.html"

func openAssets() (*assets, error) {
	a := &assets{files: make(map[string][]byte)}
	entries, err := fs.ReadDir(embedded, "assets") // sorted
	if err != nil {
		return nil, err
	}
	all := sha256.New()
	for _, entry := range entries {
		text, err := embedded.ReadFile("assets/" + entry.Name())
		if err != nil {
			return nil, err
		}
		all.Write([]byte(entry.Name() + "\x00")) // never fails, as the next
		all.Write(text)
		a.files[entry.Name()] = text
	}
	a.version = hex.EncodeToString(all.Sum(nil)[:6])
	a.index = string(a.files[nameOfIndex])
	delete(a.files, nameOfIndex)
	return a, nil
}

// contentType is that of a name. The table of the host is not asked: it may say
// anything of .js.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// index answers with the page itself. Its marks stand in quoted attributes only, where
// escaping is enough. No package of templates fills them in (docs/design.md#kept).
func (p *Page) index(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	fill := strings.NewReplacer("{{version}}", html.EscapeString(p.assets.version),
		"{{strategy}}", html.EscapeString(p.o.Strategy), "{{peer}}", html.EscapeString(p.o.Peer))
	if _, err := fill.WriteString(w, p.assets.index); err != nil {
		p.o.Logger.DebugContext(r.Context(), "send the page failed", "err", err)
	}
	return nil
}

// asset answers with a file of the page. One that is asked for under the version of
// another release is answered as this release has it, and not cached: behind a
// floating IP the page may have come from another peer. The page sees the version
// in the header of the next answer and reloads.
func (p *Page) asset(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	text, ok := p.assets.files[name]
	if !ok {
		http.NotFound(w, r)
		return nil
	}
	if r.PathValue("version") == p.assets.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Content-Type", contentType(name))
	if _, err := w.Write(text); err != nil {
		p.o.Logger.DebugContext(r.Context(), "send asset of the page failed", "name", name, "err", err)
	}
	return nil
}
