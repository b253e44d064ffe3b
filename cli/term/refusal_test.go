package term

import (
	"net/http"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/client"
)

// TestHintsAreAboutWhatWasAsked: a refusal about a lease or rule leads to leases or rules, and
// who gave a password is not told to give one.
func TestHintsAreAboutWhatWasAsked(t *testing.T) {
	for about, list := range map[string]string{"leases": "'trivet lease list'", "rules": "'trivet rule list'",
		"introspection": "'trivet introspection ", "nodes": "'trivet introspection list'"} {
		errs := []error{
			&client.NoAnswerError{Misses: []*client.Miss{{Err: &client.Error{Status: http.StatusServiceUnavailable}}},
				Changes: true, About: about},
			&client.NoAnswerError{Misses: []*client.Miss{{Arrived: true}}, Changes: true, About: about},
		}
		for _, status := range []int{http.StatusNotFound, http.StatusConflict, http.StatusGone,
			http.StatusPreconditionFailed} {
			errs = append(errs, &client.Error{Status: status, About: about})
		}
		for _, err := range errs {
			if hint := HintOf(err); !strings.Contains(hint, list) {
				t.Errorf("hint-is-about-what-was-asked: %s, %v: %s", about, err, hint)
			}
		}
	}
	wrong, none := HintOf(&client.Error{Status: http.StatusUnauthorized, Login: true}),
		HintOf(&client.Error{Status: http.StatusUnauthorized})
	if !strings.Contains(wrong, "password is wrong") || strings.Contains(wrong, "name a file") ||
		!strings.Contains(none, "name a file") {
		t.Errorf("hint-of-a-wrong-password: %q, without one: %q", wrong, none)
	}
}
