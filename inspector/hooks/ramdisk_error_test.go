package hooks

import (
	"strings"
	"testing"
)

func TestRamdiskError(t *testing.T) {
	long := strings.Repeat("é", 3000)
	tests := []struct{ name, text, want string }{
		{"none", `{}`, ""},
		{"null", `{"error": null}`, ""},
		{"empty", `{"error": ""}`, ""},
		{"false", `{"error": false}`, ""},
		{"zero", `{"error": -0.0e7}`, ""},
		{"empty list", `{"error": [ ]}`, ""},
		{"empty object", `{"error": {}}`, ""},
		{"text", `{"error": "disk on \"fire\"\n"}`, "Ramdisk reported error: disk on \"fire\"\n"},
		{"number", `{"error": 5}`, "Ramdisk reported error: 5"},
		{"object", `{"error": {"code": 5}}`, `Ramdisk reported error: {"code": 5}`},
		{"long", `{"error": "` + long + `"}`, "Ramdisk reported error: " + strings.Repeat("é", maxText/2-2) + "…"},
		{"odd", `{"error": "x` + long + `"}`, "Ramdisk reported error: x" + strings.Repeat("é", maxText/2-2) + "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantProblem(t, ramdiskError{}.Before(t.Context(), parsed(t, tt.text)), tt.want)
		})
	}
}
