package cli

import (
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/cli/term"
)

func TestRoffKeepsCommandsLiteral(t *testing.T) {
	text := newRoff("trivet-x", 1, "2026-11-21", "v0.1.0").text(".hidden\n'run --now'\n\n  a  b\n  c\\d\nend \"of\" ~it^").String()
	want := ".TH \"TRIVET\\-X\" 1 \"2026\\-11\\-21\" \"trivet v0.1.0\" \"Trivet\"\n.nh\n.ad l\n" +
		"\\&.hidden\n\\(aqrun \\-\\-now\\(aq\n.PP\n.nf\n  a  b\n  c\\ed\n.fi\nend \\(dqof\\(dq \\(tiit\\(ha\n"
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

func TestManualHasEveryCommandAndKey(t *testing.T) {
	p := &program{Terminal: &term.Terminal{}}
	root := p.root()
	pages := make(map[string]string)
	for _, page := range manual(root) {
		pages[page.name] = page.text
	}
	for _, c := range shown(root) {
		own := pages["trivet-"+c.Name()]
		if own == "" || !strings.Contains(pages["trivet"], escape("trivet-"+c.Name()+"(1)")) {
			t.Errorf("%s has no page, or trivet(1) does not name it", c.CommandPath())
		}
		for _, child := range shown(c) {
			if !strings.Contains(own, ".SS \""+escape(child.CommandPath())+"\"") {
				t.Errorf("the page of %s lacks %s", c.Name(), child.Name())
			}
		}
	}
	for _, want := range []string{`\fBlisten (text)\fR`, `\fBlease (duration)\fR`, "TRIVET_API_LISTEN"} {
		if !strings.Contains(pages["trivet.yaml"], want) {
			t.Errorf("trivet.yaml(5) lacks %s", want)
		}
	}
	if !strings.Contains(pages["trivet"], "  75  leadership, or the lease of a program, was lost") {
		t.Errorf("trivet(1) does not tell the exit codes:\n%s", pages["trivet"])
	}
}
