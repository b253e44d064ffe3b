package archtest

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Width and length of what Picture writes, in columns.
const (
	pictureWidth  = 150
	pictureIndent = 20
	maxPhrase     = 54 // of what a package below a room is for
	fewWords      = 5  // of a clause that says nothing by itself
)

// Picture draws the house: a line for each folder at the top, with its lines of code and
// the first words of its package comment, and below it the packages in it, likewise. A
// folder imports only from floors below its own. What is drawn comes from the source
// alone, so that the picture in ARCHITECTURE.md can be made again after any change.
func Picture(tree *Tree) string {
	rooms, docs := roomsOf(tree), packageDocs(tree)
	floors := floorsOf(rooms, Arrows(tree))
	var b strings.Builder
	names := slices.SortedFunc(maps.Keys(rooms), func(x, y string) int {
		return cmp.Or(cmp.Compare(floors[y], floors[x]), cmp.Compare(x, y))
	})
	for i, name := range names {
		if i > 0 && floors[name] != floors[names[i-1]] {
			b.WriteString("\n")
		}
		room := rooms[name]
		label := name + "/"
		if name == "." {
			label = "main.go"
		}
		line := fmt.Sprintf("%-12s%5.1fk  %s", label, float64(room.lines)/1000,
			phrase(docs[name], pictureWidth-pictureIndent, ". "))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
		var below []string
		for _, pkg := range room.packages {
			if pkg != name {
				below = append(below, strings.TrimPrefix(pkg, name+"/")+"/ "+phrase(docs[pkg], maxPhrase, ". ", ": ", "; ", " ("))
			}
		}
		writeWrapped(&b, below)
	}
	return b.String()
}

// roomOf is what a folder at the top holds of the product.
type roomOf struct {
	packages []string
	lines    int
}

// roomsOf returns the folders of what ships, by their names.
func roomsOf(tree *Tree) map[string]*roomOf {
	rooms := make(map[string]*roomOf)
	for _, file := range tree.Files {
		if !ships(file) {
			continue
		}
		pkg := file.Package()
		name, _, _ := strings.Cut(pkg, "/")
		room := rooms[name]
		if room == nil {
			room = new(roomOf)
			rooms[name] = room
		}
		room.lines += codeLines(file.Source)
		if i, found := slices.BinarySearch(room.packages, pkg); !found {
			room.packages = slices.Insert(room.packages, i, pkg)
		}
	}
	return rooms
}

// packageDocs returns the comment of each package: the first file's that begins as one.
func packageDocs(tree *Tree) map[string]string {
	docs := make(map[string]string)
	for _, file := range tree.Files {
		if pkg := file.Package(); !file.Test() && docs[pkg] == "" {
			docs[pkg] = file.Syntax.Doc.Text()
		}
	}
	return docs
}

// floorsOf puts each folder one floor above the highest that it imports. Folders in a
// circle, which another test refuses, end on the top floor.
func floorsOf(rooms map[string]*roomOf, arrows map[string]map[string]bool) map[string]int {
	floors := make(map[string]int)
	for range rooms { // the longest way has a step for each room
		for name := range rooms {
			for to := range arrows[name] {
				if floors[name] <= floors[to] {
					floors[name] = min(floors[to]+1, len(rooms))
				}
			}
		}
	}
	floors["."] = slices.Max(slices.Collect(maps.Values(floors))) + 1
	return floors
}

// phrase is what a package comment says the package is: its beginning without the
// package's name, up to one of the ends and cut to a width.
func phrase(doc string, width int, ends ...string) string {
	words := strings.Fields(doc)
	if len(words) < 3 {
		return ""
	}
	words = words[2:] // "Package fsm"
	if words[0] == "is" {
		words = words[1:]
	}
	text := strings.Join(words, " ")
	for _, end := range ends {
		text, _, _ = strings.Cut(text, end)
	}
	text = strings.TrimSuffix(text, ".")
	if len(text) <= width {
		return text
	}
	if clause, _, _ := strings.Cut(text, ", "); width == maxPhrase && len(clause) <= width &&
		strings.Count(clause, " ") >= fewWords-1 {
		return clause
	}
	return strings.TrimRight(text[:strings.LastIndexByte(text[:width], ' ')], ",") + " …"
}

// writeWrapped writes the packages below a room, as many on a line as fit.
func writeWrapped(b *strings.Builder, items []string) {
	column := 0
	for _, item := range items {
		wide := len([]rune(item)) + len("; ")
		switch {
		case column == 0:
			b.WriteString(strings.Repeat(" ", pictureIndent))
			column = pictureIndent
		case column+wide > pictureWidth:
			b.WriteString(";\n" + strings.Repeat(" ", pictureIndent))
			column = pictureIndent
		default:
			b.WriteString("; ")
		}
		b.WriteString(item)
		column += wide
	}
	if column > 0 {
		b.WriteString("\n")
	}
}

// pictureIn returns the picture that a page has, in its one fence.
func pictureIn(page string) (before, picture, after string, err error) {
	parts := strings.Split(page, "```")
	if len(parts) != 3 {
		return "", "", "", fmt.Errorf("%d fences, want the one picture", len(parts)-1)
	}
	return parts[0] + "```\n", strings.TrimPrefix(parts[1], "\n"), "```" + parts[2], nil
}

// Assets counts the lines of JavaScript and CSS that ship, as lines of code are counted:
// those that are neither blank nor comment alone.
func Assets(root string) (lines int, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (skipDir(d.Name()) || name == filepath.Join(root, "test")):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".js" && filepath.Ext(name) != ".css":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		comment := false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			comment = comment || strings.HasPrefix(line, "/*")
			if !comment && line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
			comment = comment && !strings.HasSuffix(line, "*/")
		}
		return nil
	})
	return lines, err
}
