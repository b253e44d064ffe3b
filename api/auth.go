package api

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/trivet-ha/trivet/internal/bounds"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Auth decides who may use the inspector's API. Its refusals are in the
// words of docs/contract.md#errors.
type Auth interface {
	// WellFormed refuses credentials that cannot be read. It is asked for every
	// request, also one that needs none.
	WellFormed(r *http.Request) error
	// Identify says who sent a request for what is not public, by its headers,
	// and refuses who cannot prove it. It may take its time, bounded by the
	// request's context. What the caller may do is judged elsewhere. sender is
	// where the request came from, for the share of the work that one source gets;
	// the zero Addr if it is not known.
	Identify(r *http.Request, sender netip.Addr) (Caller, error)
}

// NoAuth returns the strategy noauth: everybody may do everything.
func NoAuth() Auth { return noAuth{} }

type noAuth struct{}

func (noAuth) WellFormed(*http.Request) error { return nil }
func (noAuth) Identify(*http.Request, netip.Addr) (Caller, error) {
	return Caller{Name: whoAnonymous, Role: RoleAdmin}, nil
}

// Bounds of the work on passwords. bcrypt is slow on purpose: guesses must not take
// the cores from the log's heartbeats.
const (
	maxChecks     = 1                // at a time
	rememberFor   = 10 * time.Minute // since a password was last used; it is right without a check
	knownFor      = 24 * time.Hour   // since then; its check does not wait for those of strangers
	lookAtFile    = time.Second      // at most this often
	lookAgain     = lookAtFile / 10  // after a file that would not do: it may have been read while it was written
	keepUsers     = 10 * time.Minute // of a file that is gone or cannot be read
	processKeyLen = 32               // bytes
)

// BasicAuth is the strategy http_basic: names and bcrypt hashes of a file as
// `htpasswd -B` writes it. A password that was right is remembered from use to use,
// as a MAC under a key of this process, so that a client that polls costs one
// bcrypt and not thousands, also while others guess passwords. Checks wait in a
// line, and all that fail take the same time. The file is read again when it
// changes: its good lines count and no others, or a stolen password would be good for
// as long as the file is damaged or has no user. Of a file that cannot be read the
// users count for keepUsers. It may be used concurrently.
type BasicAuth struct {
	path    string
	readers []string // users who only read; all others may do everything
	key     []byte   // random, of this process
	now     func() time.Time
	logger  *slog.Logger
	compare func(hash, password []byte) error

	users    atomic.Pointer[users]
	opened   time.Time
	nextLook atomic.Int64          // ns since opened
	lastRead atomic.Int64          // the same: when the users were what the file says
	unread   atomic.Pointer[error] // of the last look, and that was logged
	looks    bounds.Calls          // at the file
	stat     func(path string) (os.FileInfo, error)

	queue   *admission.Line
	sources *admission.Known
}

// NewBasicAuth reads the users of a file, of whom readers may only read. The
// error names the file and each line that is wrong. random gives the key of this
// process.
func NewBasicAuth(path string, readers []string, now func() time.Time, random io.Reader,
	logger *slog.Logger) (*BasicAuth, error) {
	b := &BasicAuth{
		path: path, readers: slices.Clone(readers), key: make([]byte, processKeyLen), now: now, logger: logger,
		compare: bcrypt.CompareHashAndPassword,
		opened:  now(), queue: checks(maxChecks), sources: goodSources(), stat: os.Stat,
	}
	if _, err := io.ReadFull(random, b.key); err != nil {
		return nil, fmt.Errorf("make a key for passwords: %w", err)
	}
	u, err := readUsers(path)
	if err == nil {
		err = errors.Join(u.wrong...)
	}
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
		return refuse(http.StatusBadRequest,
			"The Authorization header cannot be read: it must be Basic and the base64 form of user:password")
	}
	return nil
}

// Identify implements Auth. Too many passwords at once are no refusal: 503.
func (b *BasicAuth) Identify(r *http.Request, sender netip.Addr) (Caller, error) {
	name, password, ok := r.BasicAuth()
	if !ok {
		return Caller{}, errUnauthorized()
	}
	b.Look()
	ok, err := b.check(r.Context(), admission.SourceOf(sender), name, password)
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

// check compares a password. The time that a failure takes does not depend on
// whether the user is known.
func (b *BasicAuth) check(ctx context.Context, source netip.Prefix, name, password string) (bool, error) {
	u, mac, now := b.users.Load().byName[name], b.mac(name, password), b.now()
	if b.remembers(u, mac, now) {
		b.sources.Vouch(source, now)
		return true, nil
	}
	known := laneOf(b.sources, source, u.recall(mac).usedWithin(knownFor, now.Sub(b.opened)), now)
	if err := b.queue.Enter(ctx, known, source); err != nil {
		return false, refuse(http.StatusServiceUnavailable, "Too many passwords are being checked; try again")
	}
	defer b.queue.Leave(source)
	b.Look() // the wait may have been long, and the user be taken out
	table := b.users.Load()
	u = table.byName[name]
	if now = b.now(); b.remembers(u, mac, now) { // another request had the same checked meanwhile
		return true, nil
	}
	if !b.matches(table, u, []byte(password)) {
		return false, nil
	}
	seen := &verified{mac: mac}
	seen.used.Store(int64(now.Sub(b.opened)))
	u.verified.Store(seen)
	b.sources.Vouch(source, now)
	return true, nil
}

// remembers reports whether a password needs no check, and counts this use then. u
// is nil for an unknown user.
func (b *BasicAuth) remembers(u *user, mac []byte, now time.Time) bool {
	v, at := u.recall(mac), now.Sub(b.opened)
	if !v.usedWithin(rememberFor, at) {
		return false
	}
	v.used.Store(int64(at))
	return true
}

// matches compares a password with a user's hash; u is nil for an unknown user. If
// it is wrong, hashes of all costs from the user's own to the dearest one follow:
// each cost takes twice the time of the one below, and c + c + 2c + … + d/2 = d.
// The names of users could else be told by the time that a failure takes.
func (b *BasicAuth) matches(table *users, u *user, password []byte) bool {
	cost := table.cost
	if u != nil {
		if b.compare(u.hash, password) == nil {
			return true
		}
		cost = u.cost
	} else {
		_ = b.compare(table.decoy(cost), password) // for the time it takes
	}
	for ; cost < table.cost; cost++ {
		_ = b.compare(table.decoy(cost), password) // for the time it takes
	}
	return false
}

// mac is the record of a password that was right. No name holds a colon.
func (b *BasicAuth) mac(name, password string) []byte {
	h := hmac.New(sha256.New, b.key)
	h.Write([]byte(name + ":" + password)) // never fails
	return h.Sum(nil)
}

// verified is a password that was right.
type verified struct {
	mac  []byte
	used atomic.Int64 // when it was last used or checked, in ns since BasicAuth.opened
}

// recall returns what is remembered of a password, nil if it is not known to be
// right. u may be nil.
func (u *user) recall(mac []byte) *verified {
	if u == nil {
		return nil
	}
	if v := u.verified.Load(); v != nil && subtle.ConstantTimeCompare(v.mac, mac) == 1 {
		return v
	}
	return nil
}

// usedWithin reports whether less than limit has passed from the last use until at.
// v may be nil.
func (v *verified) usedWithin(limit, at time.Duration) bool {
	return v != nil && at-time.Duration(v.used.Load()) < limit
}

// Look reads the file again if it is another one than was read. It waits for a file system
// for up to bounds.FileLimit; one that hangs has no file that can be read.
func (b *BasicAuth) Look() {
	since, next := int64(b.now().Sub(b.opened)), b.nextLook.Load()
	if since < next || !b.nextLook.CompareAndSwap(next, since+int64(lookAtFile)) {
		return
	}
	if err := b.looks.Take(bounds.FileLimit, func() func() { return b.readChanged(since) }); err != nil {
		b.outlive(since, fmt.Errorf("users of the API: %s: %w", b.path, err))
	}
}

// File returns the text of the file as it is now, within bounds.FileLimit or twice that behind a look: who
// was taken out of it must not come back on another peer.
func (b *BasicAuth) File() ([]byte, error) {
	var text []byte
	var fault error
	err := b.looks.Do(bounds.FileLimit, func() { text, _, fault = bounds.ReadFile(b.path, maxSmallFile) })
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", b.path, err)
	case fault != nil:
		return nil, fault
	case len(text) == 0:
		return nil, fmt.Errorf("%s: no user is in it", b.path)
	}
	return text, nil
}

// readChanged reads the file if it is another one than was read.
func (b *BasicAuth) readChanged(since int64) (take func()) {
	info, err := b.stat(b.path)
	if before := b.users.Load(); err == nil && before.of(info) {
		return func() { b.takeRead(since, before) }
	}
	fresh, err := readUsers(b.path)
	if err != nil {
		return func() {
			b.nextLook.Store(since + int64(lookAgain))
			b.outlive(since, err)
		}
	}
	return func() { b.takeRead(since, fresh) }
}

// takeRead notes that the file has these users, and puts them in force.
func (b *BasicAuth) takeRead(since int64, fresh *users) {
	b.unread.Store(nil)
	b.lastRead.Store(since)
	before := b.users.Load()
	if fresh == before {
		return
	}
	for name, now := range fresh.byName { // what is remembered of one stays for as long as the hash does
		if was := before.byName[name]; was != nil && bytes.Equal(was.hash, now.hash) {
			now.verified.Store(was.verified.Load())
		}
	}
	if len(fresh.byName) == 0 { // a failed login still takes its time
		fresh.cost, fresh.dearest = before.cost, before.dearest
	}
	b.users.Store(fresh)
	b.missReaders(fresh)
	if err := errors.Join(fresh.wrong...); err != nil {
		b.logger.Error("file of users is damaged; only its good lines count", "file", b.path, "count", len(fresh.byName),
			"err", err)
		b.nextLook.Store(since + int64(lookAgain))
		return
	}
	b.logger.Info("users reloaded", "file", b.path, "count", len(fresh.byName))
}

// outlive ends the users of a file that cannot be read, when it could not be for keepUsers.
func (b *BasicAuth) outlive(since int64, err error) {
	if b.unread.Swap(&err) == nil {
		b.logger.Error("reload users failed, keeping those read before for 10 minutes", "file", b.path, "err", err)
	}
	before := b.users.Load()
	if time.Duration(since-b.lastRead.Load()) < keepUsers || len(before.byName) == 0 {
		return
	}
	b.users.Store(&users{cost: before.cost, dearest: before.dearest})
	b.logger.Error("refusing all users: their file could not be read for 10 minutes", "file", b.path, "err", err)
}

// Fault is what is wrong with the file, as of the last look, and whom that keeps out; nil
// if nothing is.
func (b *BasicAuth) Fault() error {
	u := b.users.Load()
	switch err := b.unread.Load(); {
	case err != nil && len(u.byName) == 0:
		return fmt.Errorf("%w; no user is let in", *err)
	case err != nil:
		return fmt.Errorf("%w; 10 minutes after it was last read no user is let in", *err)
	case len(u.wrong) > 0:
		return fmt.Errorf("%w; only the users of good lines are let in, %d", u.wrong[0], len(u.byName))
	}
	return nil
}
