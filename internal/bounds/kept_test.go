package bounds

import (
	"errors"
	"testing"
	"testing/synctest"
)

// TestKept: what a file held at the newest look counts while it cannot be read, or hangs, which holds up no other
// file; a look that ends late counts.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k Kept[string]
		gone, share := errors.New("gone"), make(chan struct{})
		expect := func(path, text string, failed error, want string, wantErr error) {
			t.Helper()
			got, known, err := k.Read(path, func(string) (string, error) {
				if text == "late" {
					<-share
				}
				return text, failed
			})
			if got != want || known != (want != "") || !errors.Is(err, wantErr) {
				t.Errorf("kept: %s holds %q, %t, %v, want %q, %v", path, got, known, err, want, wantErr)
			}
		}
		expect("a", "", gone, "", gone)
		expect("a", "one", nil, "one", nil)
		expect("a", "", gone, "one", gone)
		expect("a", "late", nil, "one", ErrHangs)
		expect("a", "two", nil, "one", ErrHangs)
		expect("b", "two", nil, "two", nil)
		close(share)
		synctest.Wait()
		expect("a", "", gone, "late", gone)
	})
}
