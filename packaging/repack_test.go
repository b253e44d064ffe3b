package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// archive is one of ar, of names and bodies in turns.
func archive(words ...string) []byte {
	out := bytes.NewBufferString(arMagic)
	for i := 0; i < len(words); i += 2 {
		fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8s%-10d%s%s", words[i], 1795731124, 0, 0, "100644", len(words[i+1]), arEnd,
			words[i+1])
		if out.Len()%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// TestRepack: a package that was cut and put together again is the same but for its
// last member.
func TestRepack(t *testing.T) {
	for _, packed := range []string{"odd", "even"} {
		head, files, err := cutFiles(archive("debian-binary", "2.0\n", "control.tar.gz", "xyz", "data.tar", "the files"))
		if err != nil || string(files) != "the files" {
			t.Fatalf("cut out %q (%v)", files, err)
		}
		if got, want := withFiles(head, []byte(packed)),
			archive("debian-binary", "2.0\n", "control.tar.gz", "xyz", "data.tar.xz", packed); !bytes.Equal(got, want) {
			t.Errorf("with %s:\n%q, want\n%q", packed, got, want)
		}
	}
	good := archive("data.tar", "the files")
	for name, c := range map[string]struct {
		deb  []byte
		want string
	}{
		"no archive":         {[]byte("PK\x03\x04"), "no archive of ar"},
		"compressed already": {archive("debian-binary", "2.0\n", "data.tar.xz", "x"), "it has no data.tar"},
		"cut off":            {good[:len(good)-3], "has no size of a member"},
		"no size": {bytes.Replace(good, []byte("9         `"), []byte("?         `"), 1),
			"has no size of a member"},
	} {
		if _, _, err := cutFiles(c.deb); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
