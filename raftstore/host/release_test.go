package host

import (
	"archive/zip"
	"encoding/hex"
	"os"
	"testing"

	"github.com/trivet-ha/trivet/fsm"
)

// TestReadsTheFilesOfRelease010 opens the log and the snapshots of a peer of v0.1.0 and
// replays them: the state is the one that v0.1.0 itself had, and a snapshot of it reads
// back. The peer introspected six machines under that release's 'trivet dev', with its leader killed, went
// on alone with 'trivet recover', which wrote a snapshot, made a join token, and was killed
// right after 'trivet debug fsm check', which printed index and hash. The keys are those of
// that cluster alone.
func TestReadsTheFilesOfRelease010(t *testing.T) {
	dir := t.TempDir()
	packed, err := zip.OpenReader("testdata/v0.1.0-raft.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	if err := os.CopyFS(dir, &packed.Reader); err != nil {
		t.Fatal(err)
	}
	st, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	history, err := Replay(st)
	if err != nil {
		t.Fatal(err)
	}
	const index, hash = 153, "9739446544f9d7c0f912f3398058d3e22c5f6e841745129341f54c6dc0373836"
	v := history.State.View()
	sum := v.Hash()
	if v.Index() != index || hex.EncodeToString(sum[:]) != hash || v.ClusterVersion() != 1 {
		t.Errorf("reads-v0.1.0: index %d, hash %x, log version %d; v0.1.0 had %d, %s, 1", v.Index(), sum, v.ClusterVersion(),
			index, hash)
	}
	file, err := os.CreateTemp(dir, "snapshot")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := v.WriteTo(file); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	again, err := fsm.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.View().Hash(); got != sum {
		t.Errorf("reads-v0.1.0: a snapshot of it reads back with hash %x", got)
	}
}
