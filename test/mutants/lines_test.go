package main

import (
	"strings"
	"testing"
)

// TestLinesBehindAMutantStay: the linker takes a package again only where its line
// numbers are what its importers saw.
func TestLinesBehindAMutantStay(t *testing.T) {
	const source = "package gate\n\nfunc f() {\n\tif a {\n\t\tb()\n\t}\n\tc()\n}\n"
	cases := []struct{ name, before, after, want string }{
		{"as many", "\tif a {\n", "\tif !a {\n", "\tif !a {\n"},
		{"fewer, whole lines", "\tif a {\n\t\tb()\n\t}\n", "\tb()\n", "\n\n\tb()\n"},
		{"fewer, to the end of a line", "if a {\n\t\tb()\n\t}", "b()", "b()\n\n"},
		{"fewer, within lines", "if a {\n\t\tb", "d(b", "d(b"},
		{"more", "\tc()\n", "\tc() // twice\n\tc(`x`)\n", "\nc ( ) ; c ( `x` ) ;"},
		{"more, in the middle of a statement", "a {", "a ||\n\t\td(func() {\n\t\t\te()\n\t\t}) {",
			"a || d ( func ( ) { e ( ) ; } ) {"},
	}
	for _, c := range cases {
		got := onAsManyLines(source, c.before, c.after)
		if strings.TrimRight(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
