package app

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/serviceuser"
	"github.com/trivet-ha/trivet/test/testwait"
)

// write makes files below a directory.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFilesThatAreNamed: what a kubeconfig and the file of devices name is looked at too, and
// what cannot be used is told with the place that names it.
func TestFilesThatAreNamed(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n" +
		"clusters: [{name: k, cluster: {server: 'https://192.0.2.9', certificate-authority: ca.pem}}]\nusers: [{name: u, user: {tokenFile: token}}]\n"
	fences := "devices:\n- name: r\n  type: redfish\n  username: u\n  password_file: " + dir + "/bmc\n  ca_file: " + dir +
		"/bmc.pem\n  nodes:\n    a/w1: https://192.0.2.8/redfish/v1/Systems/1\n"
	writeFiles(t, dir, map[string]string{
		"t.yaml": "name: h1\nironic: {auth_type: http_basic, username: u, password_file: " + dir + "/password}\n" +
			"failover: {mode: safe, fence_file: " + dir + "/fence.yaml, kubeconfigs: ['a=" + dir +
			"/kubeconfig']}\nbackup: {directory: " + dir + "/password}\n" +
			"inspection: {processing: {ramdisk_logs_dir: " + dir + "/logs/made/later}}\n",
		"kubeconfig": kubeconfig, "fence.yaml": fences, "password": "p", "bmc": "p", "bmc.pem": "c", "ca.pem": "c",
		"token": "t",
	})
	text, err := os.ReadFile(filepath.Join(dir, "t.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	conf, err := config.Load(config.Sources{File: filepath.Join(dir, "t.yaml"), Text: text, HostName: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	faults := FileFaults(Files(conf))
	if len(faults) != 1 || faults[0].Key != "backup.directory" || faults[0].Missing ||
		!strings.Contains(faults[0].What, "is no directory") {
		t.Errorf("a file is no directory, and nothing else is wrong: %+v", faults)
	}
	for _, f := range []struct {
		name, key string
		leads     bool
	}{
		{"t.yaml", "", false}, {"password", "ironic.password_file", true}, {"fence.yaml", "failover.fence_file", true},
		{"kubeconfig", "failover.kubeconfigs", true},
		{"bmc", "devices[r].password_file", true}, {"bmc.pem", "devices[r].ca_file", true},
		{"ca.pem", "failover.kubeconfigs", true}, {"token", "failover.kubeconfigs", true},
	} {
		path := filepath.Join(dir, f.name)
		files := Files(conf)
		if err := os.Rename(path, path+".gone"); err != nil {
			t.Fatal(err)
		}
		faults := FileFaults(files)
		i := slices.IndexFunc(faults, func(found FileFault) bool { return found.Path == path })
		if i < 0 || faults[i].Key != f.key || !faults[i].Missing || faults[i].Leads != f.leads || faults[i].Do == "" ||
			!strings.Contains(faults[i].What, path+" does not exist") {
			t.Errorf("named-file-is-gone: %s: %+v", f.name, faults)
		}
		if err := os.Rename(path+".gone", path); err != nil {
			t.Fatal(err)
		}
	}
	hidden := hiddenFaults(Files(conf), serviceuser.Unit{Hidden: []string{dir}}, nil)
	if len(hidden) < 8 || !strings.Contains(hidden[0].What, "which the unit of the service hides from it") {
		t.Errorf("hidden-from-the-service: %+v", hidden)
	}
}

// TestFileThatIsGone: a running peer tells of a file that it was started with and cannot use
// any more, in status and doctor, and does not lead without one that the leader needs.
func TestFileThatIsGone(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a peer")
	}
	r := newReloadable(t)
	password := filepath.Join(t.TempDir(), "password")
	writeFiles(t, "", map[string]string{password: "quiet word"})
	r.must("ironic.auth_type", "http_basic", "ironic.username", "trivet", "ironic.password_file", password)
	r.used.checkFiles(Files(r.conf.Current()))
	r.used.checkFiles(Files(r.conf.Current()))
	if err := r.used.Unfit(); err != nil {
		t.Fatalf("before: %v", err)
	}
	if err := os.Remove(password); err != nil {
		t.Fatal(err)
	}
	var alone fileWatch // the peer's own looks by itself, too
	if alone.checkFiles(Files(r.conf.Current())); len(alone.Faults()) > 0 {
		t.Error("one look is enough, while the file may be replaced")
	}
	if alone.checkFiles(Files(r.conf.Current())); len(alone.Faults()) != 1 {
		t.Errorf("two looks found %+v", alone.Faults())
	}
	for range 2 {
		r.used.checkFiles(Files(r.conf.Current()))
	}
	if err := r.Core().Fitness.Fit(); err == nil ||
		!strings.Contains(err.Error(), "ironic.password_file: "+password+" does not exist") {
		t.Errorf("leads-without-its-files: %v", err)
	}
	if status, err := json.Marshal(r.self.Status().Warnings); err != nil ||
		!strings.Contains(string(status), `"file_unusable"`) || !strings.Contains(string(status), password) {
		t.Errorf("status-tells-of-files: %s, %v", status, err)
	}
	facts := newExaminer(r.Peer).Facts(t.Context())
	found, err := doctor.Judge([]doctor.Facts{facts}, []string{"config"})
	if err != nil || len(found) != 1 || found[0].Severity != doctor.Error || !strings.Contains(found[0].Text, password) {
		t.Errorf("doctor-tells-of-files: %+v, %v", found, err)
	}
}

// A look that hangs, and ends after a later one, does not stand for now.
func TestOlderLookAtFilesIsDropped(t *testing.T) {
	begun, hold := make(chan struct{}), make(chan error)
	w := fileWatch{try: func(f config.File) error {
		if f.Key == "hangs" {
			close(begun)
			return <-hold
		}
		return errors.New("gone")
	}}
	var first sync.WaitGroup
	first.Go(func() { w.checkFiles([]config.File{{Key: "hangs", Path: "/hangs"}}) })
	testwait.Receive(t, begun, "the first look")
	for range 2 {
		w.checkFiles([]config.File{{Key: "gone", Path: "/gone"}})
	}
	hold <- nil
	first.Wait()
	if len(w.Faults()) != 1 {
		t.Errorf("older-look: it leaves %+v of what two later ones found", w.Faults())
	}
}

// TestFileOfAnotherMountIsFound: a path that is good again makes the peer fit to lead, although the call of the
// share that it led to before never ends.
func TestFileOfAnotherMountIsFound(t *testing.T) {
	conf := config.Default()
	conf.Ironic.AuthType, conf.Ironic.PasswordFile = "http_basic", filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(conf.Ironic.PasswordFile, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		share := make(chan struct{})
		var asked atomic.Int32
		w := &fileWatch{try: func(f config.File) error {
			if asked.Add(1) == 1 {
				<-share
			}
			return use(f)
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		unfit := 0
		w.Run(ctx, func() *config.Config { return &conf }, func() {
			if w.Unfit() != nil {
				unfit++
			}
		})
		if err := w.Unfit(); err != nil || unfit == 0 || unfit > 10 {
			t.Errorf("path-is-good-again: asked %d times, unfit to lead %d times, at last: %v", asked.Load(), unfit, err)
		}
		close(share)
	})
}

// TestUnreadFilesOfAShareThatHangs: who asks which files are unread waits for no share, and hears what
// the newest look has found; a reload hears of other files, and of the one that hangs.
func TestUnreadFilesOfAShareThatHangs(t *testing.T) {
	dir := t.TempDir()
	conf := config.Default()
	fences, kubeconfig := filepath.Join(dir, "fences"), filepath.Join(dir, "prod")
	conf.Failover.Mode, conf.Failover.FenceFile = config.FailoverSafe, fences
	conf.Failover.Kubeconfigs = []string{"prod=" + kubeconfig}
	writeFiles(t, "", map[string]string{fences: "1", kubeconfig: "1"})
	synctest.Test(t, func(t *testing.T) {
		texts := newFileTexts(conf)
		expect := func(when string, hang int, want ...string) {
			t.Helper()
			began := time.Now()
			got, hangs := texts.rewritten(conf)
			if !slices.Equal(got, want) || len(hangs) != hang || time.Since(began) > bounds.FileLimit {
				t.Errorf("file-unread: %s: %v are unread, %v, after %v", when, got, hangs, time.Since(began))
			}
			if unread := texts.unreadNow(conf); !slices.Equal(unread, want) {
				t.Errorf("file-unread: %s: %v are unread at a look", when, unread)
			}
		}
		writeFiles(t, "", map[string]string{fences: "2"})
		expect("rewritten", 0, "failover.fence_file")
		share := make(chan struct{})
		if _, _, err := texts.reads.Read(fences, func(path string) ([sha256.Size]byte, error) {
			<-share
			return digest(path)
		}); !errors.Is(err, bounds.ErrHangs) {
			t.Fatal(err)
		}
		writeFiles(t, "", map[string]string{fences: "1", kubeconfig: "2"})
		expect("the share hangs", 1, "failover.fence_file", "failover.kubeconfigs")
		close(share)
		synctest.Wait()
		expect("it answers", 0, "failover.kubeconfigs")
	})
}

// TestFileOfAShareThatHangs: a file whose file system does not answer is told as one that is gone, and
// keeps the peer from looking at no other, and at what is done next.
func TestFileOfAShareThatHangs(t *testing.T) {
	dir := t.TempDir()
	conf := config.Default()
	conf.Inspection.Processing.RamdiskLogsDir = filepath.Join(dir, "share")
	conf.API.AuthStrategy, conf.API.HTTPBasicAuthUserFile = "http_basic", filepath.Join(dir, "gone")
	synctest.Test(t, func(t *testing.T) {
		share := make(chan struct{})
		w := &fileWatch{try: func(f config.File) error {
			if strings.HasSuffix(f.Path, "share") {
				<-share
			}
			return use(f)
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*fileLook+bounds.FileLimit)
		defer cancel()
		done := 0
		w.Run(ctx, func() *config.Config { return &conf }, func() { done++ })
		told := ""
		for _, f := range w.Faults() {
			told += f.String() + "; "
		}
		if done != 3 || !strings.Contains(told, "share: the file system does not answer") ||
			!strings.Contains(told, "gone does not exist") {
			t.Errorf("share-hangs: %d rounds: %s", done, told)
		}
		close(share)
	})
}
