package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
)

//go:embed assets
var embedded embed.FS

// assets are the files of the page, read once.
type assets struct {
	index   *template.Template
	files   map[string][]byte // by name
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
	if a.index, err = template.New(nameOfIndex).Parse(string(a.files[nameOfIndex])); err != nil {
		return nil, err
	}
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

// index answers with the page itself.
func (p *Page) index(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	data := struct{ Version, Strategy, Peer string }{p.assets.version, p.o.Strategy, p.o.Peer}
	if err := p.assets.index.Execute(w, data); err != nil {
		p.o.Logger.DebugContext(r.Context(), "send the page failed", "err", err)
	}
}

// asset answers with a file of the page. One that is asked for under the version of
// another release is answered as this release has it, and not cached: behind a
// floating IP the page may have come from another peer. The page sees the version
// in the header of the next answer and reloads.
func (p *Page) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	text, ok := p.assets.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.PathValue("version") == p.assets.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Content-Type", contentType(name))
	if _, err := w.Write(text); err != nil {
		p.o.Logger.DebugContext(r.Context(), "send asset of the page failed", "name", name, "err", err)
	}
}
