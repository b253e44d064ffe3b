package powercut

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// hexed writes a text as strace does.
func hexed(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		out.WriteString(`\x` + hex.EncodeToString([]byte{b}))
	}
	return out.String()
}

// traced returns the lines of a recording. @TEXT@ stands for a text in hexadecimal, and each line gets its
// time.
func traced(lines ...string) string {
	var out strings.Builder
	for n, line := range lines {
		parts := strings.Split(line, "@")
		for i := 1; i < len(parts); i += 2 {
			parts[i] = hexed(parts[i])
		}
		thread := "7"
		if rest, other := strings.CutPrefix(parts[0], "8 "); other {
			thread, parts[0] = "8", rest
		}
		fmt.Fprintf(&out, "%s 100.%06d %s\n", thread, n, strings.Join(parts, ""))
	}
	return out.String()
}

// played returns a disk after a recording.
func played(t *testing.T, root string, lines ...string) *disk {
	t.Helper()
	d, err := newDisk(root)
	if err != nil {
		t.Fatal(err)
	}
	moments, err := parse("a", strings.NewReader(traced(lines...)))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range moments {
		if _, err := d.play(m); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// replaced is how a file is replaced, without the directory at the end, in root /d.
var replaced = []string{
	`openat(AT_FDCWD<@/@>, "@/d/f.new@", O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0600) = 3<@/d/f.new@>`,
	`write(3<@/d/f.new@>, "@new@", 3) = 3`,
	`fsync(3<@/d/f.new@> <unfinished ...>`,
	`8 write(3<@/d/f.new@>, "@er@", 2) = 2`,
	`<... fsync resumed>) = 0`,
	`rename("@/d/f.new@", "@/d/f@") = 0`,
}

// states returns what power cuts leave, as texts.
func states(d *disk) []string {
	all := make(map[string]bool)
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 0))
		files := d.cut(r.IntN(len(ways)), r)
		var text []string
		for _, path := range slices.Sorted(maps.Keys(files)) {
			if path != "/" {
				text = append(text, fmt.Sprintf("%s=%s", path[1:], bytes.ReplaceAll(files[path], []byte{0}, []byte("_"))))
			}
		}
		all[strings.Join(text, " ")] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// TestStatesOfAPowerCut lists what may be on the disk: a sync covers what had ended before it began, and
// names are there only once their directory was synced.
func TestStatesOfAPowerCut(t *testing.T) {
	for name, test := range map[string]struct {
		lines, want []string
	}{
		"a file is written": {replaced[:2], []string{"", "f.new=", "f.new=___", "f.new=new"}},
		"it is synced, and written meanwhile": {replaced[:5],
			[]string{"", "f.new=new", "f.new=new__", "f.new=newer"}},
		"it is renamed": {replaced, []string{"", "f.new=new", "f.new=new__", "f.new=newer", "f=new", "f=new__", "f=newer"}},
		"the directory is synced": {append(slices.Clone(replaced), `fsync(5<@/d@>) = 0`),
			[]string{"f=new", "f=new__", "f=newer"}},
		"a sync that failed": {append(slices.Clone(replaced[:2]), `fdatasync(3<@/d/f.new@>) = -1 EIO (Input/output error)`),
			[]string{"", "f.new=", "f.new=___", "f.new=new"}},
		"a directory is moved": {[]string{
			`mkdirat(AT_FDCWD<@/@>, "@/d/x@", 0700) = 0`,
			`openat(AT_FDCWD<@/@>, "@/d/x/f@", O_WRONLY|O_CREAT, 0600) = 3<@/d/x/f@>`,
			`fsync(3<@/d/x/f@>) = 0`, `fsync(4<@/d@>) = 0`,
			`renameat2(AT_FDCWD<@/@>, "@/d/x@", AT_FDCWD<@/@>, "@/d/y@", 0) = 0`,
		}, []string{"x/=", "x/= x/f=", "y/=", "y/= y/f="}},
		"a file is removed, and made again": {[]string{
			`openat(AT_FDCWD<@/@>, "@/d/f@", O_WRONLY|O_CREAT, 0600) = 3<@/d/f@>`,
			`pwrite64(3<@/d/f@>, "@ab@", 2, 1) = 2`, `fdatasync(3<@/d/f@>) = 0`, `fsync(4<@/d@>) = 0`,
			`unlinkat(4<@/d@>, "@f@", 0) = 0`,
			`openat(AT_FDCWD<@/@>, "@/d/f@", O_WRONLY|O_CREAT, 0600) = 3<@/d/f@>`,
		}, []string{"", "f=", "f=_ab"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := states(played(t, "/d", test.lines...)); !slices.Equal(got, test.want) {
				t.Errorf("a power cut leaves\n%q, not\n%q", got, test.want)
			}
		})
	}
}

// TestTornWrites: pages and sectors of a write are there or not, each by itself.
func TestTornWrites(t *testing.T) {
	d := &disk{offsets: make(map[string]int64)}
	d.top = d.node(true)
	n := d.node(false)
	n.text, n.synced = bytes.Repeat([]byte("a"), 8192), bytes.Repeat([]byte("a"), 8192)
	d.top.names["f"], d.top.stored["f"] = n, n
	d.write(n, write{at: 100, data: bytes.Repeat([]byte("b"), 8000)})
	seen := make(map[string]bool)
	for seed := range uint64(300) {
		text := d.cut(5, rand.New(rand.NewPCG(seed, 0)))["/f"]
		if len(text) != 8192 || text[0] != 'a' || text[8191] != 'a' {
			t.Fatal("bytes that were not written have changed")
		}
		var sectors strings.Builder
		for at := 512; at < 7680; at += 512 {
			if bytes.Count(text[at:at+512], text[at:at+1]) != 512 {
				t.Fatalf("sector at %d is torn", at)
			}
			sectors.WriteByte(text[at])
		}
		seen[sectors.String()] = true
	}
	if len(seen) < 290 {
		t.Errorf("%d of 300 power cuts tear the write in another way", len(seen))
	}
}

// TestUnknownCallsAreRefused: a recording that cannot be replayed says so.
func TestUnknownCallsAreRefused(t *testing.T) {
	for _, line := range []string{
		`mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3<@/d/f@>, 0) = 0x7f0000000000`,
		`copy_file_range(3<@/e@>, NULL, 4<@/d/f@>, NULL, 5, 0) = 5`,
		`symlinkat("@x@", AT_FDCWD<@/@>, "@/d/f@") = 0`,
		`openat(AT_FDCWD<@/@>, "@/d/f@", O_WRONLY|O_CREAT|O_APPEND, 0600) = 3<@/d/f@>`,
		`write(3<@/d/f@>, "@new@", 3) = 3`,
		`fallocate(3<@/d/f@>, FALLOC_FL_PUNCH_HOLE, 0, 1) = 0`,
	} {
		d, err := newDisk("/d")
		if err != nil {
			t.Fatal(err)
		}
		moments, err := parse("a", strings.NewReader(traced(line)))
		if err != nil {
			t.Fatal(err)
		}
		refused := false
		for _, m := range moments {
			_, err := d.play(m)
			refused = refused || err != nil
		}
		if !refused {
			t.Errorf("%s is replayed", line)
		}
	}
}

// TestAnswersAreClaims: what a client was told counts from the moment at which it is sent.
func TestAnswersAreClaims(t *testing.T) {
	c := Claims{"founded/a": 2}
	moments, err := parse("a", strings.NewReader(traced(
		"write(9<@socket:[5]@>, \"@HTTP/1.1 200 OK\r\nX-Request-Id: cut/value/2/1=17\r\n\r\n@\", 50 <unfinished ...>",
		"8 write(1<@pipe:[5]@>, \"@cut/term=4\n@\", 9) = 9",
		"8 write(2<@/x.log@>, \"@cut/term=5\n@\", 9) = 9",
		"8 write(9<@socket:[6]@>, \"@HTTP/1.1 503 \r\nX-Request-Id: cut/value/2/1=18\r\n\r\n@\", 50) = 50",
		"8 write(9<@socket:[6]@>, \"@HTTP/1.1 200 OK\r\n\r\n{\"role\":\"leader\",\n\"term\":6}@\", 50) = 50",
	)))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range moments {
		if err := c.hear(m); err != nil {
			t.Fatal(err)
		}
	}
	want := Claims{"founded/a": 2, "value/2/1": 17, "term": 4, "term/a/2": 6, "vote/a/2": 6}
	if !maps.Equal(c, want) {
		t.Errorf("claims are %v, not %v", c, want)
	}
}
