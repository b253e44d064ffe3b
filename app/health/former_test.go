package health

import (
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/test/memlog"
)

func TestFormerMembersAreWarnedOf(t *testing.T) {
	got := formerWarnings(memlog.FoundedAgain(t))
	if len(got) != 2 || got[0].Code != "former_member" || got[1].Code != "former_silent" ||
		!strings.Contains(got[1].Text, "h3 (c.example:7350)") ||
		!strings.Contains(got[1].Remedy, "'trivet join HOST --replace'") {
		t.Errorf("warnings: %+v", got)
	}
	if rated("h1", got) != api.Degraded {
		t.Error("a closed PXE service does not degrade")
	}
}
