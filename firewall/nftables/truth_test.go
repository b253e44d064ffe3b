package nftables

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/nftables/expr"

	"github.com/trivet-ha/trivet/firewall"
)

// truths are the rows of the truth table in docs/pxe.md that are about driver
// nftables: by match, and the frame's source. A relayed request has any frame.
func truths() map[firewall.Match]map[string][3]string {
	const boots, dropped, unknown = "boots", "dropped", "as unknown"
	return map[firewall.Match]map[string][3]string{
		firewall.MatchEther: {
			"under introspection": {boots, dropped, boots},
			"denied":              {dropped, dropped, dropped},
			"unknown":             {unknown, dropped, unknown},
			"a relay's":           {dropped, dropped, dropped},
		},
		firewall.MatchChaddr: {
			"under introspection": {boots, dropped, unknown},
			"denied":              {dropped, dropped, dropped},
			"unknown":             {boots, dropped, unknown},
			"a relay's":           {boots, dropped, unknown},
		},
	}
}

// kindsOf are the machines that a word of the table stands for.
func kindsOf(word string) []byte {
	return map[string][]byte{
		"under introspection": {mayBoot, isBoth}, "denied": {mayNot}, "unknown": {anybody},
		"a relay's": {mayBoot, isBoth, mayNot, anybody},
	}[word]
}

// TestTruthTable tries every pair of addresses, with and without a pass rule, and
// wants what the page says.
func TestTruthTable(t *testing.T) {
	for match, rows := range truths() {
		k := newFilter(t, match).planned
		for row, cells := range rows {
			for i, column := range []string{"under introspection", "denied", "unknown"} {
				for _, pass := range []bool{true, false} {
					want := expr.VerdictDrop
					if cells[i] == "boots" || cells[i] == "as unknown" && pass {
						want = expr.VerdictAccept
					}
					expectAll(t, k, row, column, match, pass, want)
				}
			}
		}
	}
}

func expectAll(t *testing.T, k skeleton, row, column string, match firewall.Match, pass bool, want expr.VerdictKind) {
	t.Helper()
	sets := maps.Clone(members())
	if !pass {
		delete(sets, setPass)
	}
	var agent []byte
	if row == "a relay's" {
		agent = []byte{198, 51, 100, 7}
	}
	for _, frame := range kindsOf(row) {
		for _, client := range kindsOf(column) {
			if got := k.decide(t, bootp(frame, client, agent...), sets); got != want {
				t.Errorf("truth: match %s, frame %s (%d), inside %s (%d), pass rule %v: verdict %d, want %d", match, row, frame,
					column, client, pass, got, want)
			}
		}
	}
}

// TestTruthTableIsOnThePage reads the rows of driver nftables in docs/pxe.md.
func TestTruthTableIsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/pxe.md")
	if err != nil {
		t.Fatal(err)
	}
	for match, rows := range truths() {
		for row, cells := range rows {
			line := "| `nftables`, `match: " + string(match) + "` | " + row + " | " + strings.Join(cells[:], " | ") + " |"
			if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + `$`).Match(page) {
				t.Errorf("docs/pxe.md lacks the row %s", line)
			}
		}
	}
}
