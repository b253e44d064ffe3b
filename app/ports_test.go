package app

import (
	"testing"

	"github.com/trivet-ha/trivet/inspector"
)

func TestGUIDOf(t *testing.T) {
	const guid = "7c:fe:90:03:00:29:26:52"
	for _, tt := range []struct {
		id   any
		want string
	}{
		{"ff:00:00:00:00:00:02:00:00:02:c9:00:" + guid, guid}, {"FF:00:7C:FE:90:03:00:29:26:52", guid}, {guid, guid},
		{"", ""}, {"a machine's name, which is no GUID", ""}, {nil, ""}, {7, ""}, {guid[1:], ""},
	} {
		if got := guidOf(inspector.Port{Extra: map[string]any{"client-id": tt.id}}); got != tt.want {
			t.Errorf("client-id %v: GUID %q, want %q", tt.id, got, tt.want)
		}
	}
}
