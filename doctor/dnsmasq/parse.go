package dnsmasq

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Files are where the configuration is.
type Files interface {
	// Read returns what a file holds, within a bound of its own. A file that is
	// not there is fs.ErrNotExist.
	Read(name string) ([]byte, error)
	// List returns the names in a directory. A name that is no directory is an
	// error other than fs.ErrNotExist.
	List(name string) ([]string, error)
}

// debianSkips are the endings that Debian's service hands to conf-dir.
var debianSkips = []string{".dpkg-dist", ".dpkg-old", ".dpkg-new"}

// Parse reads the files and directories at paths as if dnsmasq had been given
// each with --conf-file or --conf-dir. One that is not there is empty: a host
// need not have dnsmasq.
func Parse(files Files, paths []string) Config {
	p := &parser{files: files, seen: make(map[string]bool)}
	for _, name := range paths {
		if names, err := files.List(name); err == nil {
			p.all(name, names, debianSkips)
			continue
		}
		if err := p.file(name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.problem(Place{File: name}, err.Error())
		}
	}
	return p.conf
}

// parser is one reading of a configuration.
type parser struct {
	files Files
	conf  Config
	seen  map[string]bool
	lines int
	depth int
}

func (p *parser) problem(at Place, what string) {
	const most = 32 // more say no more
	if len(p.conf.Problems) < most {
		p.conf.Problems = append(p.conf.Problems, Problem{at, what})
	}
}

// file reads one file, once.
func (p *parser) file(name string, depth int) error {
	if p.seen[name] {
		return nil
	}
	if len(p.seen) == maxFiles || depth > maxDepth {
		return errors.New("too many files include each other")
	}
	p.seen[name] = true
	text, err := p.files.Read(name)
	if err != nil {
		return err
	}
	p.conf.Files = append(p.conf.Files, name)
	at := Place{File: name}
	for line := range bytes.Lines(text) {
		at.Line++
		if p.lines++; p.lines > maxLines {
			return errors.New("it has more lines than any configuration")
		}
		if key, value, ok := option(string(line)); ok {
			p.depth = depth
			p.option(at, key, value)
		}
	}
	return nil
}

// option cuts a line into key and value. A # begins a comment at the start of
// the line and after a blank, unless it is quoted.
func option(line string) (key, value string, ok bool) {
	quoted := false
	for i, c := range line {
		if c == '"' {
			quoted = !quoted
		}
		if c == '#' && !quoted && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			line = line[:i]
			break
		}
	}
	key, value, _ = strings.Cut(line, "=")
	key = strings.TrimSpace(key)
	return key, strings.ReplaceAll(strings.TrimSpace(value), `"`, ""), key != ""
}

// words are the parts of a value between commas.
func words(value string) []string {
	if value == "" {
		return nil
	}
	out := strings.Split(value, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

func (p *parser) option(at Place, key, value string) {
	switch key {
	case "conf-file":
		p.include(at, value)
	case "conf-dir": // a directory, and the endings that files there must have (*.conf) or must not have (.dpkg-old)
		w := words(value)
		if len(w) == 0 {
			return
		}
		names, err := p.files.List(w[0])
		if err != nil {
			p.problem(at, "conf-dir: "+err.Error())
			return
		}
		p.all(w[0], names, w[1:])
	case "conf-script":
		p.problem(at, "conf-script makes more of the configuration, which is not looked at")
	case "interface":
		p.conf.Interfaces = append(p.conf.Interfaces, words(value)...)
	case "except-interface", "no-dhcp-interface":
		p.conf.Except = append(p.conf.Except, words(value)...)
	case "enable-tftp":
		p.conf.TFTP = true
	case "tftp-root":
		root, _, _ := strings.Cut(value, ",")
		p.conf.TFTPRoot = root
	case "dhcp-hostsdir":
		p.conf.HostsDirs = append(p.conf.HostsDirs, path.Clean(value))
	case "dhcp-range":
		p.dhcpRange(at, untagged(value))
	case "dhcp-boot": // FILE[,SERVER NAME[,SERVER ADDRESS]]
		w := untagged(value)
		if len(w) == 0 || w[0] == "" {
			return
		}
		b := Boot{Place: at, Name: w[0]}
		if len(w) > 2 {
			b.Server = w[2]
		}
		p.conf.Boots = append(p.conf.Boots, b)
	case "pxe-service":
		p.pxeService(at, untagged(value))
	case "dhcp-option", "dhcp-option-force":
		if w := untagged(value); len(w) == 2 && w[1] != "" && slices.Contains(bootOptions, w[0]) { // OPTION,VALUE
			p.conf.Boots = append(p.conf.Boots, Boot{Place: at, Name: w[1], Six: strings.HasPrefix(w[0], "option6:")})
		}
	}
}

// include reads what conf-file names: one file, or those that a pattern fits.
func (p *parser) include(at Place, pattern string) {
	names := []string{pattern}
	if dir, base := path.Split(pattern); strings.ContainsAny(base, "*?[") {
		names = nil
		listed, err := p.files.List(path.Clean(dir))
		if err != nil {
			p.problem(at, "conf-file: "+err.Error())
			return
		}
		slices.Sort(listed)
		for _, name := range listed {
			if fits, err := filepath.Match(base, name); err == nil && fits {
				names = append(names, dir+name)
			}
		}
	}
	depth := p.depth // reading changes it
	for _, name := range names {
		if err := p.file(name, depth+1); err != nil {
			p.problem(at, "conf-file: "+err.Error())
		}
	}
}

// all reads the files of a directory in the order of their names.
func (p *parser) all(dir string, names, endings []string) {
	depth := p.depth
	slices.Sort(names)
	for _, name := range names {
		if !hasEnding(name, endings) {
			continue
		}
		full := path.Join(dir, name)
		if _, err := p.files.List(full); err == nil {
			continue // directories within are not looked into
		}
		if err := p.file(full, depth+1); err != nil {
			p.problem(Place{File: full}, err.Error())
		}
	}
}

// hasEnding reports whether conf-dir takes a file of this name. What editors leave
// behind it never takes.
func hasEnding(name string, endings []string) bool {
	if name == "" || strings.HasSuffix(name, "~") || strings.HasPrefix(name, ".") ||
		strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") {
		return false
	}
	wanted, some := false, false
	for _, ending := range endings {
		if rest, only := strings.CutPrefix(ending, "*"); only {
			some = true
			wanted = wanted || strings.HasSuffix(name, rest)
		} else if ending != "" && strings.HasSuffix(name, ending) {
			return false
		}
	}
	return wanted || !some
}
