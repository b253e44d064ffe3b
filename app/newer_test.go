package app

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"hash/crc64"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/test/msgcheck"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestAPeerStaysDownOnANewerSnapshot lets this binary find on its disk what one of
// tomorrow wrote.
func TestAPeerStaysDownOnANewerSnapshot(t *testing.T) {
	dir := t.TempDir()
	conf, err := config.Load(config.Sources{Flags: map[string]string{
		"name": "h1", "data_dir": filepath.Join(dir, "d"), "socket": filepath.Join(dir, "s"), "api.listen": "127.0.0.1:0",
		"cluster.listen": "127.0.0.1:0", "gossip.listen": testenv.FreePort(t),
		"cluster.advertise": "127.0.0.1:7350", "gossip.advertise": "127.0.0.1:7351", "firewall.driver": "noop",
	}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := datadir.Open(conf.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	}()
	host := datadir.Host{Config: conf, Binary: "test", Wall: time.Now, Random: rand.Reader}
	if _, err := host.Init(data); err != nil {
		t.Fatal(err)
	}
	tomorrow(t, conf.DataDir)
	peer, err := New(t.Context(),
		Options{Config: conf, Dir: data, Binary: "test", Logger: msgcheck.Logger(t), Wall: time.Now, Random: rand.Reader,
			Exit: func(code int, why error) { t.Errorf("exit %d: %v", code, why) }})
	if err == nil {
		err = peer.Stop(t.Context())
		t.Fatalf("newer-snapshot-stops: it serves (%v)", err)
	}
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "upgrade trivet on this host") {
		t.Errorf("newer-snapshot-stops: %v", err)
	}
}

// tomorrow makes of the only snapshot below dir one of the next format, which is
// whole. It has an ID of its own: the log knows how the old one was written.
func tomorrow(t *testing.T, dir string) {
	t.Helper()
	var state string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) == "state.bin" {
			state = path
		}
		return err
	})
	if err != nil || state == "" {
		t.Fatalf("no snapshot below %s: %v", dir, err)
	}
	text, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	text[8]++ // its format
	meta := filepath.Join(filepath.Dir(state), "meta.json")
	about, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	sum.Write(text)
	about = regexp.MustCompile(`"CRC":"[^"]*"`).ReplaceAll(about,
		[]byte(`"CRC":"`+base64.StdEncoding.EncodeToString(sum.Sum(nil))+`"`))
	folder := filepath.Dir(state)
	id := filepath.Base(folder) + "0"
	about = regexp.MustCompile(`"ID":"[^"]*"`).ReplaceAll(about, []byte(`"ID":"`+id+`"`))
	err = errors.Join(os.WriteFile(state, text, 0o600), os.WriteFile(meta, about, 0o600),
		os.Rename(folder, filepath.Join(filepath.Dir(folder), id)))
	if err != nil {
		t.Fatal(err)
	}
}
