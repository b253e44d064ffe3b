package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/cli/term"
)

// TestOperatorsAreTold: docs/operate.md explains every warning that a peer can
// give and every exit code that a command can end with.
func TestOperatorsAreTold(t *testing.T) {
	text, err := os.ReadFile("../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for _, pattern := range []string{"../app/*.go", "../app/admin/*.go", "../app/health/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, files...)
	}
	warning, found := regexp.MustCompile(`\b(?:add\(|Code: )"([a-z_]+)",\s`), 0
	for _, path := range sources {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range warning.FindAllStringSubmatch(string(source), -1) {
			found++
			if !regexp.MustCompile("(?m)^\\| [^|]*`" + match[1] + "`").Match(text) {
				t.Errorf("docs/operate.md does not explain the warning %s", match[1])
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d warnings were found in the source: does app still write them so?", found)
	}
	for code, rows := range tableRows(string(text)) {
		if rows > 1 {
			t.Errorf("docs/operate.md explains %s in %d rows of one table", code, rows)
		}
	}
	for _, match := range regexp.MustCompile(`(?m)^ +(\d+)  `).FindAllStringSubmatch(term.ExitCodes, -1) {
		if !strings.Contains(string(text), "\n| "+match[1]+" | ") {
			t.Errorf("docs/operate.md does not explain exit code %s", match[1])
		}
	}
}

// tableRows counts, for each code in the first column of a table, its rows there.
// A code may stand in several tables; the counts are of the worst.
func tableRows(text string) map[string]int {
	codes, most := regexp.MustCompile("`([a-z_]+)`"), make(map[string]int)
	table := make(map[string]int)
	for line := range strings.Lines(text) {
		first, ok := strings.CutPrefix(line, "| ")
		if !ok {
			clear(table)
			continue
		}
		first, _, _ = strings.Cut(first, " |")
		for _, code := range codes.FindAllStringSubmatch(first, -1) {
			table[code[1]]++
			most[code[1]] = max(most[code[1]], table[code[1]])
		}
	}
	return most
}
