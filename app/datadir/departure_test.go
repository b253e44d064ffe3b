package datadir

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestDeparture(t *testing.T) {
	root := t.TempDir()
	if _, ok, err := Departed(root); ok || err != nil {
		t.Fatalf("a new directory: %v, %v", ok, err)
	}
	dir, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	want := Departure{How: DepartedRemoved, Name: "h3", Cluster: "c", At: time.Unix(1_700_000_000, 0).UTC()}
	if err := dir.Depart(want); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := Departed(root); err != nil || !ok || got != want {
		t.Errorf("read back %+v, %v, %v", got, ok, err)
	}
	if err := dir.forgetDeparture(); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := Departed(root); ok {
		t.Error("it was not forgotten")
	}
	if err := os.WriteFile(filepath.Join(root, departureFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Departed(root); err == nil {
		t.Error("a record that cannot be read is taken")
	}
}
