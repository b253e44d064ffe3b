package archtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// specDocuments are the anchors of the tables in docs/specs.md.
var specDocuments = []string{"000", "001", "002", "003", "004"}

// TestSpecsNameTestsAndPages: each row of docs/specs.md has a number of its own, one of
// three states, and a test with its package and what it shows, a page or the reason.
// Links are followed by Links.
func TestSpecsNameTestsAndPages(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), "docs", "specs.md"))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := wholeTree()
	if err != nil {
		t.Fatal(err)
	}
	rows, mistakes := judgeSpecs(string(text), testsOfPackages(tree))
	for _, m := range mistakes {
		t.Error("docs/specs.md: " + m)
	}
	for _, document := range specDocuments {
		if rows[document] < 10 {
			t.Errorf("docs/specs.md has %d rows for the document %s", rows[document], document)
		}
	}
}

// judgeSpecs counts the rows of each document, and says what is wrong with them.
func judgeSpecs(text string, tests []string) (rows map[string]int, mistakes []string) {
	rows = make(map[string]int)
	seen := make(map[string]bool)
	document := ""
	for _, line := range strings.Split(text, "\n") {
		if found := regexp.MustCompile(`^<a id="(\d{3})"></a>$`).FindStringSubmatch(line); found != nil {
			document = found[1]
		}
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.HasPrefix(cells[1], "---") || cells[1] == " # " {
			if strings.HasPrefix(line, "|") && len(cells) != 6 {
				mistakes = append(mistakes, "a row has not four cells: "+line)
			}
			continue
		}
		rows[document]++
		mistakes = append(mistakes, judgeSpec(document, cells, seen, tests)...)
	}
	return rows, mistakes
}

func judgeSpec(document string, cells []string, seen map[string]bool, tests []string) (mistakes []string) {
	number, state, where := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[3]), strings.TrimSpace(cells[4])
	row := "the row " + document + " " + number
	if !regexp.MustCompile(`^[A-Z][A-Za-z -]* \d+$`).MatchString(number) || seen[document+number] {
		mistakes = append(mistakes, row+" has no number of its own")
	}
	seen[document+number] = true
	names := regexp.MustCompile("`(?:([a-z0-9/]+)\\.)?(Test[A-Z]\\w*)`( \\(\\S+ \\S+ [^)]+\\))?").FindAllStringSubmatch(
		where, -1)
	for _, name := range names {
		if test := name[1] + "." + name[2]; !slices.Contains(tests, test) {
			mistakes = append(mistakes, row+" names the test "+test+", which does not exist")
		} else if name[3] == "" && !seen[document+test] {
			mistakes = append(mistakes,
				row+" does not say in parentheses what "+test+" shows: the first row of a document that names it does")
		}
		seen[document+name[1]+"."+name[2]] = true
	}
	leads := len(names) > 0 || strings.Contains(where, "](")
	switch {
	case state != "done" && state != "differently" && state != "not":
		mistakes = append(mistakes, row+" is neither done, differently nor not")
	case where == "", state == "done" && !leads:
		mistakes = append(mistakes, row+" leads to no test and no page")
	case state == "differently" && !leads && !strings.HasPrefix(where, "as "):
		mistakes = append(mistakes, row+" leads nowhere that says how")
	}
	return mistakes
}

// testsOfPackages are the names of all tests after the folder of their package.
func testsOfPackages(tree *Tree) (names []string) {
	for _, file := range tree.Files {
		for _, test := range testsOf(file) {
			names = append(names, path.Dir(file.Path)+"."+test)
		}
	}
	return names
}

// Each mistake in a row is seen.
func TestSpecMistakesAreSeen(t *testing.T) {
	tests := []string{"failover.TestKube"}
	for line, want := range map[string]string{
		"| A 1 | x | done | `failover.TestKube` (pods move at once) |":   "",
		"| A 1 | x | done | `failover.TestKube` |":                       "does not say",
		"| A 1 | x | done | `fsm.TestKube` (pods move at once) |":        "does not exist",
		"| A 1 | x | done | `TestKube` (pods move at once) |":            "does not exist",
		"| A 1 | x | not | it is the kernel's |":                         "",
		"| A 1 | x | differently | as B 2 |":                             "",
		"| A 1 | x | done | `TestGone` |":                                "does not exist",
		"| A 1 | x | done | it is so |":                                  "leads to no test",
		"| A 1 | x | differently | by other ways |":                      "leads nowhere",
		"| A 1 | x | mostly | `failover.TestKube` (pods move at once) |": "neither done",
		"| A 1 | x | not | |":                                            "leads to no test",
		"| first | x | done | `failover.TestKube` (pods move at once) |": "no number",
		"| A 1 | x | done |":                                             "four cells",
	} {
		rows, mistakes := judgeSpecs("<a id=\"000\"></a>\n| # | requirement | state | where |\n|---|---|---|---|\n"+line+"\n",
			tests)
		got := strings.Join(mistakes, "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) || want == "" && rows["000"] != 1 {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	again := "| A 1 | x | done | `failover.TestKube` (pods move at once) |\n| A 2 | y | done | `failover.TestKube` |\n"
	if _, mistakes := judgeSpecs("<a id=\"000\"></a>\n"+again, tests); len(mistakes) != 0 {
		t.Errorf("a test that an earlier row describes: %v", mistakes)
	}
	twice := "| A 1 | x | done | [a](b) |\n| A 1 | y | done | [a](b) |\n"
	if _, mistakes := judgeSpecs(twice, tests); len(mistakes) != 1 {
		t.Errorf("a number twice: %v", mistakes)
	}
}
