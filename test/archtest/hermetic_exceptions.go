package archtest

import "strings"

// allowedExceptions is the number of hermeticExceptions. It only becomes smaller; a
// test compares the two.
const allowedExceptions = 5

// hermeticException lets one function, or one file as a whole, do one of the things
// that checkHermetic finds.
type hermeticException struct{ place, kind, why string }

// file returns the path of the exception's file.
func (e hermeticException) file() string {
	path, _, _ := strings.Cut(e.place, ":")
	return path
}

// hermeticExceptions are the exceptions. One that excuses nothing is a finding.
var hermeticExceptions = []hermeticException{
	{"cli/start_test.go:take", ofReuse,
		"it takes the port that the peer is about to use, as another program would; the test has reserved it"},
	{"cli/fakeapi_test.go:status", ofElapsed,
		"introspections of this fake go on by the clock, and no test judges for how long"},
	{"cluster/gossip_test.go:TestGossipThatCannotStart", ofReuse,
		"it takes the port that gossip is about to use, as another program would; the test has reserved it"},
	{"test/mutants/mutants_test.go:TestUsage", ofProcess, "its calls are refused or only list rows; no row is judged"},
	{"test/mutants/compiler_test.go", ofProcess,
		"it asks the go command, which compiled the test itself, for the packages that the rows are compiled against"},
}
