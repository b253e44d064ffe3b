package history

import "fmt"

// FirstDifference says where the events that a client saw and those that there are part,
// "" if they do not.
func FirstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("it has %d events of %d; the first that is missing is %s", len(got), len(want), want[i])
		case i >= len(want):
			return fmt.Sprintf("it has %d events of %d; one too many is %s", len(got), len(want), got[i])
		case got[i] != want[i]:
			return fmt.Sprintf("event %d is %s, want %s", i, got[i], want[i])
		}
	}
	return ""
}
