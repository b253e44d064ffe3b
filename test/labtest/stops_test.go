package labtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// The places where the tests of tier 2 stop a process, or poison it, are in the sources.
func TestStopsFitTheSource(t *testing.T) {
	for file := range stops() {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))
		if err == nil {
			_, err = withStops(file, string(text))
		}
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := withPoison(testenv.GetFile(t, "../..", hooksRegistry)); err != nil {
		t.Error(err)
	}
	if _, err := withStops("failover/remedy.go", "package failover\n"); err == nil {
		t.Error("a source without its place is taken")
	}
}

// clockSource is the file of the product that says which wall clock it reads.
const clockSource = "cli/main.go"

// hourAhead returns the text of clockSource with a clock that is an hour ahead.
func hourAhead(text string) (string, error) {
	const right, ahead = "Wall: time.Now,", "Wall: func() time.Time { return time.Now().Add(time.Hour) },"
	if n := strings.Count(text, right); n != 1 {
		return "", fmt.Errorf("%s has %q %d times: the clock is set elsewhere", clockSource, right, n)
	}
	return strings.Replace(text, right, ahead, 1), nil
}

// TestClockIsWhereItIsReplaced: a change of the product's source that TestTenMistakes
// could not follow fails here and not in the lab alone.
func TestClockIsWhereItIsReplaced(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("../..", clockSource))
	testenv.Must(t, err)
	if _, err := hourAhead(string(text)); err != nil {
		t.Error(err)
	}
}
