package archtest

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	link   = regexp.MustCompile(`\]\(([^)\s]*)\)`)
	scheme = regexp.MustCompile(`^[a-z]+:`)
	// cited matches a page of the repository as comments and messages name it.
	cited = regexp.MustCompile(`((?:docs/[\w-]+|(?:[\w-]+/)*DESIGN)\.md(?:#[\w-]*)?)`)
)

// linking leaves out this package's fixtures, which hold citations that lead nowhere.
func linking(file *File) bool {
	return file.isPage() || file.isGo() && (!file.test() || file.Package() != "test/archtest")
}

// checkLinks follows every link of a page that stays inside the repository, and every
// citation of a page in comments and messages of Go: the file that it names is there, and
// so is its anchor. The index of docs names every page of docs.
func checkLinks(file *File, report report) {
	expr, text := cited, file.Source
	if file.isPage() {
		expr, text = link, prose(file.Source)
	}
	for i, line := range strings.Split(text, "\n") {
		if !file.isPage() && !strings.Contains(line, ".md") {
			continue // the expression matches none of the other lines, slowly
		}
		for _, found := range expr.FindAllStringSubmatch(line, -1) {
			target := found[1]
			switch {
			case scheme.MatchString(target):
				continue
			case strings.HasPrefix(target, "#"):
				target = file.Path + target
			case file.isPage(), strings.HasPrefix(target, "DESIGN"): // the package's own
				target = path.Join(file.Package(), target)
			}
			if err := file.tree.find(target); err != nil {
				report(i+1, "%s: %v", found[1], err)
			}
		}
	}
	if file.Path != "docs/README.md" {
		return
	}
	for name := range file.tree.texts {
		page, ok := strings.CutPrefix(name, "docs/")
		if ok && path.Ext(page) == ".md" && name != file.Path && !strings.Contains(text, "]("+page) {
			report(1, "%s is not in the index: say when to read it", page)
		}
	}
}

var (
	namedTest  = regexp.MustCompile("`(?:([a-z0-9/]+)\\.)?(Test[A-Z]\\w*)(…?)")
	namedTable = regexp.MustCompile(`\brows/(\w+\.diff)`)
)

// naming leaves out docs/faults.md, which is generated and names patterns of tests.
func naming(file *File) bool { return kept(file) && file.Path != "docs/faults.md" }

// checkNames wants each test, mutant and table of mutants that a page names to exist. A
// test's name may have its package before it, and one that ends in "…" is the beginning of
// several. Mutants stand in the last column of docs/promises.md.
func checkNames(page *File, report report) {
	for i, line := range strings.Split(page.Source, "\n") {
		for _, found := range namedTest.FindAllStringSubmatch(line, -1) {
			test := "." + found[2]
			if found[1] != "" {
				test = "\n" + found[1] + test
			}
			if found[3] == "" {
				test += "\n"
			}
			if !strings.Contains(page.tree.tests.String(), test) {
				report(i+1, "there is no test %s", found[0])
			}
		}
		for _, found := range namedTable.FindAllStringSubmatch(line, -1) {
			if page.tree.texts["test/mutants/rows/"+found[1]] == nil {
				report(i+1, "there is no table of mutants %s", found[0])
			}
		}
		cells := strings.Split(line, "|")
		if page.Path != "docs/promises.md" || len(cells) != 5 || cells[3] == " mutants " || cells[3] == "---" {
			continue
		}
		for name := range strings.SplitSeq(cells[3], ",") {
			name = strings.TrimSpace(name)
			if name != "" && !strings.Contains(name, "`") && !strings.Contains(page.tree.mutants, "\nmutant: "+name+"\n") {
				report(i+1, "there is no mutant %s", name)
			}
		}
	}
}

// find returns an error unless there is a file, or a page with an anchor after "#".
func (t *Tree) find(target string) error {
	name, anchor, _ := strings.Cut(target, "#")
	page := t.texts[name]
	if page == nil || !page.isPage() {
		if _, err := os.Stat(filepath.Join(t.Root, filepath.FromSlash(name))); err != nil || path.Ext(name) == ".md" {
			return fmt.Errorf("there is no %s", name)
		}
		return nil
	}
	if anchor != "" && !page.anchors[anchor] {
		return fmt.Errorf("%s has no anchor %q", name, anchor)
	}
	return nil
}

var (
	heading    = regexp.MustCompile(`(?m)^#+ +(.+)$|<a id="([\w-]+)"></a>`)
	notInNames = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchorsOf returns the explicit anchors of a page and the names that forges give
// its headings.
func anchorsOf(text string) map[string]bool {
	anchors := make(map[string]bool)
	for _, found := range heading.FindAllStringSubmatch(prose(text), -1) {
		name := found[2]
		if name == "" {
			name = strings.ReplaceAll(notInNames.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-")
		}
		anchors[name] = true
	}
	return anchors
}

var (
	comment = regexp.MustCompile(`(?s)<!--.*?-->`)
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	quoted  = regexp.MustCompile("`[^`\n]*`") // within a line: a name, an output, the subject of a commit
)

// prose returns a page without its comments and fenced blocks, line by line where it was.
func prose(text string) string { return without(text, comment, fence) }

// without removes what some expressions match, one after the other, but for line ends.
func without(text string, parts ...*regexp.Regexp) string {
	for _, part := range parts {
		text = part.ReplaceAllStringFunc(text, func(cut string) string {
			return strings.Repeat("\n", strings.Count(cut, "\n"))
		})
	}
	return text
}
