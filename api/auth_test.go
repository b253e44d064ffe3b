package api

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/trivet-ha/trivet/internal/bounds"
)

// line is one of a file of users, cheap to check.
func line(t testing.TB, name, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return name + ":" + strings.Replace(string(hash), "$2a$", "$2y$", 1) + "\n" // as htpasswd marks it
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// testAuth knows admin, whose password is secret.
func testAuth(t testing.TB) *BasicAuth {
	t.Helper()
	path := filepath.Join(t.TempDir(), "htpasswd")
	write(t, path, "# users\n\n"+line(t, "admin", "secret"))
	b, err := NewBasicAuth(path, nil, time.Now, rand.Reader, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// counted makes b count its comparisons.
func counted(b *BasicAuth) *atomic.Int64 {
	n := new(atomic.Int64)
	compare := b.compare
	b.compare = func(hash, password []byte) error {
		n.Add(1)
		return compare(hash, password)
	}
	return n
}

func authorize(t testing.TB, b *BasicAuth, name, password string) error {
	t.Helper()
	r, err := http.NewRequest("GET", "/v1/introspection", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(name, password)
	_, err = b.Identify(r, netip.MustParseAddr("192.0.2.1"))
	return err
}

// status of an error, 0 for none.
func status(err error) int {
	if err == nil {
		return 0
	}
	return translate(err).Status
}

func TestBasicAuthGuardsWhatIsNotPublic(t *testing.T) {
	h := public(&fake{}, testAuth(t))
	const right, wrong = "Basic YWRtaW46c2VjcmV0", "Basic YWRtaW46d3Jvbmc="
	for _, c := range []struct {
		method, path, credentials string
		want                      int
	}{
		{"GET", "/", "", 200},
		{"GET", "/v1", "", 200},
		{"GET", "/v1", wrong, 200},
		{"POST", "/v1/continue", "", 200},
		{"POST", "/v1/continue/", wrong, 200},
		{"GET", "/livez", "", 200},
		{"GET", "/healthcheck", "Bearer x", 200},
		{"GET", "/metrics", "", 200},
		{"OPTIONS", "/v1/introspection", "", 200},
		{"GET", "/v1/nope", "", 404},
		{"GET", "/v1/introspection", "", 401},
		{"HEAD", "/v1/introspection", "", 401},
		{"GET", "/v1/introspection/", wrong, 401},
		{"GET", "/v1/introspection", right, 200},
		{"GET", "/v1/introspection/" + node, "", 401},
		{"POST", "/v1/introspection/" + node, "", 401},
		{"POST", "/v1/introspection/" + node, right, 202},
		{"POST", "/v1/introspection/" + node + "/abort", "", 401},
		{"GET", "/v1/introspection/" + node + "/data", "", 401},
		{"GET", "/v1/introspection/" + node + "/data/unprocessed", "", 401},
		{"GET", "/v1/introspection", "Bearer x", 400},
		{"GET", "/v1/introspection", "Basic !!!", 400},
		{"GET", "/v1/introspection", "Basic YWRtaW4=", 400}, // no colon
		{"GET", "/", "Bearer x", 400},
		{"POST", "/v1/continue", "Bearer x", 400},
	} {
		var headers []string
		if c.credentials != "" {
			headers = []string{"Authorization", c.credentials}
		}
		w := answer(t, h, c.method, c.path, "{}", headers...)
		if w.Code != c.want {
			t.Errorf("%s %s with %q: %d %s, want %d", c.method, c.path, c.credentials, w.Code, w.Body, c.want)
		}
		if c.want == 401 && (w.Header().Get("WWW-Authenticate") != "" ||
			w.Body.String() != errorBody("Authentication required")) {
			t.Errorf("%s %s: %v %s", c.method, c.path, w.Header(), w.Body)
		}
	}
}

// A client that polls must not cost a core, and a wrong password never becomes
// right by having been asked often.
func TestPasswordsAreRememberedOnlyWhenRight(t *testing.T) {
	now := time.Now()
	b := testAuth(t)
	b.now = func() time.Time { return now }
	n := counted(b)
	for range 5 {
		if err := authorize(t, b, "admin", "secret"); err != nil {
			t.Fatal(err)
		}
	}
	if n.Load() != 1 {
		t.Errorf("%d comparisons for five requests of one client", n.Load())
	}
	for want, password := range []string{"wrong", "wrong", "Secret", ""} {
		if err := authorize(t, b, "admin", password); status(err) != 401 || n.Load() != int64(want+2) {
			t.Errorf("%q: %v after %d comparisons", password, err, n.Load())
		}
	}
	now = now.Add(rememberFor)
	if err := authorize(t, b, "admin", "secret"); err != nil || n.Load() != 6 {
		t.Errorf("after %v: %v, %d comparisons: a password is remembered too long", rememberFor, err, n.Load())
	}
}

// Whoever does not know the names must not learn them from the time an answer takes.
func TestAnUnknownUserCostsAComparison(t *testing.T) {
	b := testAuth(t)
	n := counted(b)
	if err := authorize(t, b, "nobody", "secret"); status(err) != 401 || n.Load() != 1 {
		t.Errorf("%v after %d comparisons", err, n.Load())
	}
}

func TestTheFileIsReadAgain(t *testing.T) {
	now := time.Now()
	b := testAuth(t)
	b.now = func() time.Time { return now }
	replace := func(text string) {
		t.Helper()
		write(t, b.path+".new", text)
		if err := os.Rename(b.path+".new", b.path); err != nil {
			t.Fatal(err)
		}
		now = now.Add(lookAtFile)
	}
	if err := authorize(t, b, "admin", "secret"); err != nil {
		t.Fatal(err)
	}
	replace(line(t, "admin", "changed"))
	if err := authorize(t, b, "admin", "secret"); status(err) != 401 {
		t.Errorf("the old password is still taken: %v", err)
	}
	if err := authorize(t, b, "admin", "changed"); err != nil {
		t.Errorf("the new password: %v", err)
	}
	replace("broken\n" + line(t, "admin", "changed"))
	if err := authorize(t, b, "admin", "changed"); err != nil {
		t.Errorf("a broken line locked everybody out: %v", err)
	}
	replace(line(t, "other", "secret"))
	if err := authorize(t, b, "admin", "changed"); status(err) != 401 {
		t.Errorf("a user who was taken out may still come in: %v", err)
	}
	if err := authorize(t, b, "other", "secret"); err != nil {
		t.Errorf("a user who was added: %v", err)
	}
}

// A password is good for as long as its user's line stands in the file, also where no other user
// is left or another line is damaged. Only a file that cannot be read keeps its users, for ten
// minutes. Then the operator is told.
func TestWhoIsTakenOutIsRefused(t *testing.T) {
	admin, other := line(t, "admin", "stolen"), line(t, "other", "good")
	holds := func(text string) func(t *testing.T, file string) {
		return func(t *testing.T, file string) { write(t, file, text) }
	}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, file string)
		keeps  time.Duration // before that the users count
		told   string
		other  int // the status of the other user in the end
	}{
		{"the last user is removed", holds(""), 0, "no user is in it", 401},
		{"another line is damaged", holds("bob:{SHA}x\n" + other), 0, "only bcrypt", 0},
		{"its line is damaged", holds(admin[:40] + "\n" + other), 0, "only bcrypt", 0},
		{"it is there twice", holds(admin + line(t, "admin", "changed") + other), 0, "is there twice", 0},
		{"the file is deleted", func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}, keepUsers, "no such file", 401},
		{"the file is too long", holds(other + strings.Repeat("#", maxSmallFile)), keepUsers, "more than", 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, now := testAuth(t), time.Now()
			b.opened, b.now = now, func() time.Time { return now }
			replace := func(change func(t *testing.T, file string)) {
				change(t, b.path)
				now = now.Add(lookAtFile)
			}
			replace(holds(admin + other))
			if err := authorize(t, b, "admin", "stolen"); err != nil || b.Fault() != nil {
				t.Fatalf("before: %v, %v", err, b.Fault())
			}
			replace(c.change)
			if c.keeps > 0 {
				if err := authorize(t, b, "admin", "stolen"); err != nil {
					t.Errorf("file-is-gone-for-a-moment: %v", err)
				}
				now = now.Add(c.keeps)
			}
			if err := authorize(t, b, "admin", "stolen"); status(err) != 401 {
				t.Errorf("stolen-password-stays-good: %v", err)
			}
			if err := authorize(t, b, "other", "good"); status(err) != c.other {
				t.Errorf("others: %v, want %d", err, c.other)
			}
			if err := b.Fault(); err == nil || !strings.Contains(err.Error(), c.told) || !strings.Contains(err.Error(), b.path) {
				t.Errorf("users-are-refused-untold: %v", err)
			}
			replace(holds(admin))
			if err := authorize(t, b, "admin", "stolen"); err != nil || b.Fault() != nil {
				t.Errorf("mended: %v, %v", err, b.Fault())
			}
		})
	}
}

// A share without its server delays one request for the look at the file of users; its users count for
// ten minutes, as those of a file that cannot be read, and the operator is told.
func TestUsersOfAShareThatHangs(t *testing.T) {
	b := testAuth(t)
	synctest.Test(t, func(t *testing.T) {
		b.now, b.opened = time.Now, time.Now()
		if err := authorize(t, b, "admin", "secret"); err != nil {
			t.Fatal(err)
		}
		share := make(chan struct{})
		b.stat = func(string) (os.FileInfo, error) {
			<-share
			return nil, os.ErrNotExist
		}
		for _, wait := range []time.Duration{bounds.FileLimit, 0, 0} {
			time.Sleep(lookAtFile) // in a bubble
			began := time.Now()
			if err := authorize(t, b, "admin", "secret"); err != nil || time.Since(began) != wait {
				t.Errorf("users-hang: %v after %v, want %v", err, time.Since(began), wait)
			}
		}
		if err := b.Fault(); !errors.Is(err, bounds.ErrHangs) || !strings.Contains(err.Error(), b.path) {
			t.Errorf("users-hang: told is %v", err)
		}
		if text, err := b.File(); text != nil || !errors.Is(err, bounds.ErrHangs) {
			t.Errorf("users-hang: a joiner is given %q, %v", text, err)
		}
		time.Sleep(keepUsers) // in a bubble
		if err := authorize(t, b, "admin", "secret"); status(err) != 401 {
			t.Errorf("users-hang: after ten minutes %v", err)
		}
		close(share)
	})
}

// TestWhoIsTakenOutWhileItWaits: a check judges by the file of when its turn comes.
func TestWhoIsTakenOutWhileItWaits(t *testing.T) {
	b := testAuth(t)
	write(t, b.path, line(t, "admin", "secret")+line(t, "other", "good"))
	synctest.Test(t, func(t *testing.T) {
		b.now, b.opened = time.Now, time.Now()
		compare := b.compare
		b.compare = func(hash, password []byte) error {
			time.Sleep(10 * time.Second) // in a bubble
			return compare(hash, password)
		}
		go func() { _ = authorize(t, b, "admin", "guess") }()
		synctest.Wait()
		waits := make(chan error, 1)
		go func() { waits <- authorize(t, b, "other", "good") }()
		synctest.Wait()
		write(t, b.path, line(t, "admin", "secret"))
		if err := <-waits; status(err) != 401 {
			t.Errorf("judged-by-an-old-file: %v", err)
		}
	})
}

// Guessing is bounded: one comparison at a time, few that wait, and those not
// for ever. It is never answered as if the password were wrong.
func TestComparisonsAreBounded(t *testing.T) {
	b := testAuth(t)
	synctest.Test(t, func(t *testing.T) {
		b.now, b.opened = time.Now, time.Now()
		release := make(chan struct{}) // closed at the end
		var running, most atomic.Int64
		b.compare = func(_, _ []byte) error {
			most.Store(max(most.Load(), running.Add(1)))
			<-release
			running.Add(-1)
			return bcrypt.ErrMismatchedHashAndPassword
		}
		const served = maxChecks + waitingOfLane/2
		results := make(chan int, served+10)
		for range served + 10 {
			go func() { results <- status(authorize(t, b, "admin", "guess")) }()
		}
		synctest.Wait()
		if len(results) != 10 {
			t.Errorf("%d were turned away at once, want 10", len(results))
		}
		time.Sleep(maxQueueWait + time.Millisecond)
		synctest.Wait()
		if len(results) != 10+waitingOfLane/2 {
			t.Errorf("%d were turned away after %v", len(results), maxQueueWait)
		}
		close(release)
		synctest.Wait()
		counts := make(map[int]int)
		for range served + 10 {
			counts[<-results]++
		}
		if counts[503] != 10+waitingOfLane/2 || counts[401] != maxChecks || most.Load() != maxChecks {
			t.Errorf("answers %v, %d comparisons at once", counts, most.Load())
		}
		if idle, waiting := b.queue.Idle(); idle != maxChecks || waiting != 0 {
			t.Errorf("places were never given back: %+v", b.queue)
		}
	})
}

// A password that was right lately is checked next, however many wrong ones of the
// same source wait, also of the same user.
func TestAKnownLoginDoesNotWaitForStrangers(t *testing.T) {
	b := testAuth(t)
	synctest.Test(t, func(t *testing.T) {
		b.now, b.opened = time.Now, time.Now()
		if err := authorize(t, b, "admin", "secret"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rememberFor)
		compare := b.compare
		b.compare = func(hash, password []byte) error {
			time.Sleep(100 * time.Millisecond)
			return compare(hash, password)
		}
		for range waitingOfLane / 2 {
			go func() {
				if code := status(authorize(t, b, "admin", "guess")); code != 401 {
					t.Errorf("a guess: %d", code)
				}
			}()
		}
		synctest.Wait()
		began := time.Now()
		if err := authorize(t, b, "admin", "secret"); err != nil || time.Since(began) > 300*time.Millisecond {
			t.Errorf("waits-with-strangers: %v after %v, want at most two checks and its own", err, time.Since(began))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
	})
}

func TestFilesOfUsersThatAreRefused(t *testing.T) {
	good := line(t, "admin", "secret")
	dear := strings.Replace(good, "$04$", "$16$", 1)
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"no user", "# nobody\n", []string{"no user"}},
		{"no colon", good + "admin\n", []string{":2:", "name:hash"}},
		{"no name", ":x\n", []string{":1:", "name:hash"}},
		{"MD5", "admin:$apr1$2cvjzKXt$VyHHJPGzAkqQPXIkpVs6p.\n", []string{":1:", `"admin"`, "only bcrypt", "htpasswd -B"}},
		{"plain", "admin:secret\n", []string{"only bcrypt"}},
		{"damaged", strings.Replace(good, "$04$", "$xx$", 1), []string{":1:", "damaged"}},
		{"too dear", dear, []string{":1:", "cost 16"}},
		{"twice", good + good, []string{":2:", "twice"}},
		{"all of them", "x\ny\n", []string{":1:", ":2:"}},
		{"too long", strings.Repeat("#", maxSmallFile+1), []string{"more than"}},
	} {
		path := filepath.Join(t.TempDir(), "htpasswd")
		write(t, path, c.text)
		_, err := NewBasicAuth(path, nil, time.Now, rand.Reader, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v does not name the file", c.name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", c.name, err, want)
			}
		}
	}
	if _, err := NewBasicAuth(
		"/nonexistent/users", nil, time.Now, rand.Reader, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a file that is not there is taken")
	}
}
