package admin

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/memlog"
)

// A former member is removed by its name, or by its ID where a member has the name.
func TestFormerMemberIsCalled(t *testing.T) {
	v := memlog.FoundedAgain(t)
	for name, want := range map[string]string{"h2": "b", "b": "b", "c": "c", "h1": "", "d": "", "h9": ""} {
		f, err := formerCalled(v, name)
		if err != nil || (f == nil) != (want == "") || f != nil && f.ID != want {
			t.Errorf("%s: %v, %v; want %q", name, f, err, want)
		}
	}
	var refused *api.Error
	if f, err := formerCalled(v, "h3"); !errors.As(err, &refused) || refused.Code != api.CodeConflict ||
		!strings.Contains(fmt.Sprint(err), "former member c at") {
		t.Errorf("h3: %v, %v", f, err)
	}
}
