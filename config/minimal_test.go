package config

import (
	"maps"
	"strings"
	"testing"
)

// TestMinimalSaysAll writes every option there is and reads it back: nothing is
// lost, nothing is added, and no section is begun twice.
func TestMinimalSaysAll(t *testing.T) {
	values := make(map[string]string)
	for _, s := range Default().Effective() {
		if s.Value != "" {
			values[s.Key] = s.Value
		}
	}
	text, err := Minimal(values)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Load(Sources{File: "f", Text: text})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	got := make(map[string]string)
	for _, s := range c.Effective() {
		if s.Origin.Kind == FromFile {
			got[s.Key] = s.Value
		}
	}
	if !maps.Equal(got, values) {
		t.Errorf("written %v\nread    %v", values, got)
	}
}

func TestMinimalForm(t *testing.T) {
	text, err := Minimal(map[string]string{
		"raft.timing": "fast", "inspection.processing.add_ports": "all", "inspection.timeout": "1h", "name": "yes",
	})
	want := "name: \"yes\"\ninspection:\n  timeout: 1h\n  processing:\n    add_ports: all\nraft:\n  timing: fast\n"
	if err != nil || string(text) != want {
		t.Errorf("%v\n%s", err, text)
	}
	_, err = Minimal(map[string]string{"raft.timing": "none"})
	if err == nil || !strings.Contains(err.Error(), "raft.timing") {
		t.Errorf("a value that Load refuses: %v", err)
	}
}
