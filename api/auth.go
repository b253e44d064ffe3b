package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Auth decides who may use the inspector's API. Its refusals are in the
// contract's words (§3).
type Auth interface {
	// WellFormed refuses credentials that cannot be read. It is asked for every
	// request, also one that needs none.
	WellFormed(r *http.Request) error
	// Identify says who sent a request for what is not public, by its headers,
	// and refuses who cannot prove it. It may take its time, bounded by the
	// request's context. What the caller may do is judged elsewhere.
	Identify(r *http.Request) (Caller, error)
}

// NoAuth returns the strategy noauth: everybody may do everything.
func NoAuth() Auth { return noAuth{} }

type noAuth struct{}

func (noAuth) WellFormed(*http.Request) error { return nil }
func (noAuth) Identify(*http.Request) (Caller, error) {
	return Caller{Name: whoAnybody, Role: RoleAdmin}, nil
}

// Bounds of the work on passwords. bcrypt is slow on purpose: whoever guesses
// must not take the cores from the log's heartbeats.
const (
	maxChecks     = 1               // at a time
	maxWaiting    = 64              // for one, with the one under way
	waitForCheck  = 5 * time.Second // then 503
	rememberFor   = 10 * time.Minute
	lookAtFile    = time.Second // at most this often
	processKeyLen = 32          // bytes
)

// BasicAuth is the strategy http_basic: names and bcrypt hashes of a file as
// `htpasswd -B` writes it. A password that was right is remembered, as a MAC
// under a key of this process, so that a client that polls costs one bcrypt and
// not thousands. The file is read again when it changes, and until that succeeds
// the old users count. It may be used concurrently.
type BasicAuth struct {
	path    string
	readers []string // users who only read; all others may do everything
	key     []byte   // random, of this process
	now     func() time.Time
	logger  *slog.Logger
	compare func(hash, password []byte) error

	users    atomic.Pointer[users]
	opened   time.Time
	nextLook atomic.Int64 // ns since opened
	broken   atomic.Bool  // the last look failed, and that was logged

	turn *turnstile
}

// NewBasicAuth reads the users of a file, of whom readers may only read. The
// error names the file and each line that is wrong. random gives the key of this
// process.
func NewBasicAuth(path string, readers []string, now func() time.Time, random io.Reader, logger *slog.Logger) (*BasicAuth, error) {
	b := &BasicAuth{
		path: path, readers: slices.Clone(readers), key: make([]byte, processKeyLen), now: now, logger: logger, compare: bcrypt.CompareHashAndPassword,
		opened: now(), turn: newTurnstile(maxWaiting, maxChecks, waitForCheck, "Too many passwords are being checked; try again"),
	}
	if _, err := io.ReadFull(random, b.key); err != nil {
		return nil, fmt.Errorf("make a key for passwords: %w", err)
	}
	u, err := readUsers(path)
	if err != nil {
		return nil, err
	}
	b.users.Store(u)
	b.missReaders(u)
	return b, nil
}

// missReaders warns of readers that are no users: the user who was meant, if
// the name is a slip, may do everything. It is no reason to stay down, since
// users come and go with the file.
func (b *BasicAuth) missReaders(u *users) {
	for _, name := range b.readers {
		if u.byName[name] == nil {
			b.logger.Warn("reader is not in the file of users; look for a slip in the name", "user", name, "file", b.path)
		}
	}
}

// WellFormed implements Auth.
func (b *BasicAuth) WellFormed(r *http.Request) error {
	if r.Header.Get("Authorization") == "" {
		return nil
	}
	if _, _, ok := r.BasicAuth(); !ok {
		return refuse(http.StatusBadRequest, "The Authorization header cannot be read: it must be Basic and the base64 form of user:password")
	}
	return nil
}

// Identify implements Auth. Too many passwords at once are no refusal: 503.
func (b *BasicAuth) Identify(r *http.Request) (Caller, error) {
	name, password, ok := r.BasicAuth()
	if !ok {
		return Caller{}, errUnauthorized()
	}
	b.look()
	ok, err := b.check(r.Context(), name, password)
	if err != nil {
		return Caller{}, err
	}
	if !ok {
		return Caller{}, errUnauthorized()
	}
	if slices.Contains(b.readers, name) {
		return Caller{Name: name, Role: RoleReader}, nil
	}
	return Caller{Name: name, Role: RoleAdmin}, nil
}

func errUnauthorized() error { return refuse(http.StatusUnauthorized, "Authentication required") }

// check compares a password. An unknown user costs what a known one does.
func (b *BasicAuth) check(ctx context.Context, name, password string) (bool, error) {
	table := b.users.Load()
	u, known := table.byName[name]
	mac := b.mac(name, password)
	if known && u.remembers(mac, b.now()) {
		return true, nil
	}
	if err := b.turn.enter(ctx); err != nil {
		return false, err
	}
	defer b.turn.leave()
	if known && u.remembers(mac, b.now()) { // somebody else asked the same meanwhile
		return true, nil
	}
	hash := table.decoy
	if known {
		hash = u.hash
	}
	right := b.compare(hash, []byte(password)) == nil && known
	if right {
		u.verified.Store(&verified{mac: mac, until: b.now().Add(rememberFor)})
	}
	return right, nil
}

// mac is what is kept of a password that was right. No name holds a colon.
func (b *BasicAuth) mac(name, password string) []byte {
	h := hmac.New(sha256.New, b.key)
	h.Write([]byte(name + ":" + password)) // never fails
	return h.Sum(nil)
}

// verified is a password that was right.
type verified struct {
	mac   []byte
	until time.Time
}

func (u *user) remembers(mac []byte, now time.Time) bool {
	v := u.verified.Load()
	return v != nil && now.Before(v.until) && subtle.ConstantTimeCompare(v.mac, mac) == 1
}

// look reads the file again if it is another one than was read. New users come
// with nothing remembered.
func (b *BasicAuth) look() {
	since, next := int64(b.now().Sub(b.opened)), b.nextLook.Load()
	if since < next || !b.nextLook.CompareAndSwap(next, since+int64(lookAtFile)) {
		return
	}
	info, err := os.Stat(b.path)
	if err == nil && b.users.Load().of(info) {
		b.broken.Store(false)
		return
	}
	fresh, err := readUsers(b.path)
	if err != nil {
		if !b.broken.Swap(true) {
			b.logger.Error("reload users failed, keeping those read before", "file", b.path, "err", err)
		}
		return
	}
	b.broken.Store(false)
	b.users.Store(fresh)
	b.missReaders(fresh)
	b.logger.Info("users reloaded", "file", b.path, "count", len(fresh.byName))
}
