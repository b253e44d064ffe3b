package cli

import (
	"fmt"
	"strings"
)

// roff writes a manual page in the man macros. It is ours rather than cobra's
// generator, which takes help texts for Markdown and runs their tables together.
type roff struct{ b strings.Builder }

// newRoff begins a page; date and source stand in its footer.
func newRoff(name string, section int, date, source string) *roff {
	r := new(roff)
	fmt.Fprintf(&r.b, ".TH \"%s\" %d \"%s\" \"%s\" \"Trivet\"\n", escape(strings.ToUpper(name)), section, escape(date), escape("trivet "+source))
	r.b.WriteString(".nh\n.ad l\n") // a hyphen or a gap in a command is copied with it
	return r
}

// String returns the page.
func (r *roff) String() string { return r.b.String() }

func (r *roff) heading(title string) *roff {
	fmt.Fprintf(&r.b, ".SH \"%s\"\n", escape(title))
	return r
}

func (r *roff) subheading(title string) *roff {
	fmt.Fprintf(&r.b, ".SS \"%s\"\n", escape(title))
	return r
}

// text writes paragraphs. A line that begins with space stays as it is, as the
// tables and examples of a help text do.
func (r *roff) text(text string) *roff {
	verbatim := false
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		line = strings.TrimRight(line, "\n")
		table := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		switch {
		case table && !verbatim:
			r.b.WriteString(".nf\n")
		case !table && verbatim:
			r.b.WriteString(".fi\n")
		}
		verbatim = table
		if line == "" {
			r.b.WriteString(".PP\n")
			continue
		}
		r.line(line)
	}
	if verbatim {
		r.b.WriteString(".fi\n")
	}
	return r
}

// lineBreak keeps what follows from running on in the same line.
func (r *roff) lineBreak() { r.b.WriteString(".br\n") }

// item writes a term in bold and what it means.
func (r *roff) item(term, meaning string) {
	fmt.Fprintf(&r.b, ".TP\n\\fB%s\\fR\n", escape(term))
	r.line(strings.Join(strings.Fields(meaning), " "))
}

// line writes text that is no request, whatever it begins with.
func (r *roff) line(text string) {
	text = escape(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	r.b.WriteString(text + "\n")
}

// escape makes text literal: backslashes, and the signs that a printer would
// make typographic, so that a command can be copied.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`).Replace(text)
}
