package api

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/internal/keystone"
	"github.com/trivet-ha/trivet/internal/logs"
)

// tokenHeader carries a token of Keystone.
const tokenHeader = "X-Auth-Token"

// Bounds of the work on tokens. A client that invents tokens must neither push
// valid ones out of memory, nor keep Keystone from other clients.
const (
	maxToken       = 7 << 10          // bytes; the servers in front of Keystone mostly take a line of 8,190
	maxHolders     = 4096             // kept; some 1 kB each
	maxStrangers   = 1024             // tokens that Keystone does not know, kept
	strangerFor    = 10 * time.Second // for so long
	maxExaminers   = 16               // questions at a time
	maxKnownTokens = maxHolders       // whose next question does not wait for those of strangers
)

// awayFor is for how long a question without an answer tells that Keystone is away.
// Keystone is asked only when a caller shows a token, and by Check.
const awayFor = 5 * time.Minute

// TokenExaminer says who holds a token: keystone.ErrUnknownToken if the token has
// no holder, keystone.ErrUnfitToken if the question was refused for its form, and any
// other error if that cannot be told now. It bounds nothing but what the context
// bounds.
type TokenExaminer interface {
	Examine(ctx context.Context, token string) (keystone.Holder, error)
	// Check fails if no token could be examined now.
	Check(ctx context.Context) error
}

var _ TokenExaminer = (*keystone.Examiner)(nil)

// KeystoneAuth is the strategy keystone: a token in X-Auth-Token, which Keystone
// is asked about. What it said is remembered for a while under a hash of the
// token, and counts also while Keystone is away; callers who come with the same
// token at the same time cost one question. Use does not extend that time, or a
// token that was revoked would count for as long as it is used. Questions wait in a
// line. It may be used concurrently.
type KeystoneAuth struct {
	examiner  TokenExaminer
	conf      config.APIKeystone
	challenge string // of a 401
	key       []byte // random, of this process
	now       func() time.Time
	limited   *slog.Logger // callers choose when Keystone is asked
	queue     *admission.Line
	sources   *admission.Known
	away      atomic.Pointer[silence] // the last question's; nil: it was answered

	mu        sync.Mutex // guards the rest
	holders   recent[Caller]
	strangers recent[struct{}]
	known     recent[struct{}] // tokens that were good when last examined, until they end
	flights   map[tokenID]*flight
}

// flight is one question to Keystone and those who wait for its answer.
type flight struct {
	done      chan struct{} // closed when the rest is set
	caller    Caller
	err       error
	abandoned bool // the caller went away, so the answer counts for no other
}

// silence is a question that Keystone did not answer.
type silence struct {
	why   error
	since time.Time
}

// NewKeystoneAuth returns the strategy of conf. now is compared with the times
// that Keystone names; random gives the key of this process.
func NewKeystoneAuth(conf config.APIKeystone, examiner TokenExaminer, now func() time.Time, random io.Reader,
	logger *slog.Logger) (*KeystoneAuth, error) {
	uri := cmp.Or(conf.AuthenticateURI, conf.AuthURL)
	k := &KeystoneAuth{
		examiner: examiner, conf: conf, challenge: fmt.Sprintf(`Keystone uri="%s"`, strings.ReplaceAll(uri, `"`, "%22")),
		key: make([]byte, processKeyLen), now: now,
		limited: logs.Limit(logger),
		queue:   checks(maxExaminers),
		sources: goodSources(), flights: make(map[tokenID]*flight),
		holders: newRecent[Caller](maxHolders), strangers: newRecent[struct{}](maxStrangers),
		known: newRecent[struct{}](maxKnownTokens),
	}
	if _, err := io.ReadFull(random, k.key); err != nil {
		return nil, fmt.Errorf("make a key for tokens: %w", err)
	}
	return k, nil
}

// WellFormed implements Auth. No token is malformed: it is unknown.
func (k *KeystoneAuth) WellFormed(*http.Request) error { return nil }

// Identify implements Auth.
func (k *KeystoneAuth) Identify(r *http.Request, sender netip.Addr) (Caller, error) {
	token := r.Header.Get(tokenHeader)
	if token == "" || len(token) > maxToken || !consistsOf(token, isVisible) {
		return Caller{}, k.unauthorized()
	}
	id, source := k.idOf(token), admission.SourceOf(sender)
	for {
		caller, ask, wait, err := k.recall(id, source)
		switch {
		case ask != nil:
			return k.ask(r.Context(), id, source, token, ask)
		case wait == nil:
			return caller, err
		}
		select {
		case <-wait.done:
		case <-r.Context().Done():
			return Caller{}, r.Context().Err()
		}
		if !wait.abandoned {
			return wait.caller, wait.err
		}
	}
}

func (k *KeystoneAuth) idOf(token string) (id tokenID) {
	h := hmac.New(sha256.New, k.key)
	h.Write([]byte(token)) // never fails
	h.Sum(id[:0])
	return id
}

func (k *KeystoneAuth) unauthorized() error {
	return &challenged{refusal: errUnauthorized(), challenge: k.challenge}
}

// recall finds what is known of a token. If nothing is, one of ask and wait is
// not nil: the caller asks Keystone, or waits for who does.
func (k *KeystoneAuth) recall(id tokenID, source netip.Prefix) (caller Caller, ask, wait *flight, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if caller, ok := k.holders.get(id, now); ok {
		k.sources.Vouch(source, now)
		return caller, nil, nil, nil
	}
	if _, ok := k.strangers.get(id, now); ok {
		return Caller{}, nil, nil, k.unauthorized()
	}
	if under, ok := k.flights[id]; ok {
		return Caller{}, nil, under, nil
	}
	f := &flight{done: make(chan struct{}), abandoned: true} // until there is an answer, or a panic
	k.flights[id] = f
	return Caller{}, f, nil, nil
}

// ask puts the question in the context of the caller: a goroutine of its own would
// have no owner. If the caller goes away, one of those who wait asks again.
func (k *KeystoneAuth) ask(ctx context.Context, id tokenID, source netip.Prefix, token string, f *flight) (Caller,
	error) {
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.flights, id)
		close(f.done)
	}()
	asked := k.now()
	holder, err := k.examine(ctx, k.laneOf(id, source, asked), source, token)
	f.abandoned = ctx.Err() != nil
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case errors.Is(err, keystone.ErrUnknownToken), errors.Is(err, keystone.ErrUnfitToken):
		k.known.forget(id)
		k.strangers.put(id, remembered[struct{}]{until: asked.Add(min(strangerFor, k.conf.CacheTime))})
		f.err = k.unauthorized()
	case err != nil:
		f.err = err
	default: // it is remembered from when the question was put
		f.caller = k.callerOf(holder)
		k.holders.put(id, remembered[Caller]{f.caller, asked.Add(k.conf.CacheTime), holder.Expires})
		k.known.put(id, remembered[struct{}]{until: asked.Add(knownFor), ends: holder.Expires})
		k.sources.Vouch(source, asked)
	}
	return f.caller, f.err
}

// laneOf tells what is known of the caller who comes with a token.
func (k *KeystoneAuth) laneOf(id tokenID, source netip.Prefix, now time.Time) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, good := k.known.get(id, now)
	return laneOf(k.sources, source, good, now)
}

// examine asks Keystone when it is this caller's turn. Other errors than that
// the token is unknown or unfit are 503.
func (k *KeystoneAuth) examine(ctx context.Context, known int, source netip.Prefix, token string) (keystone.Holder,
	error) {
	if err := k.queue.Enter(ctx, known, source); err != nil {
		return keystone.Holder{}, refuse(http.StatusServiceUnavailable, "Too many tokens are being examined; try again")
	}
	defer k.queue.Leave(source)
	bounded, cancel := context.WithTimeout(ctx, k.conf.Timeout)
	defer cancel()
	holder, err := k.examiner.Examine(bounded, token)
	switch {
	case err == nil, errors.Is(err, keystone.ErrUnknownToken):
		if k.away.Swap(nil) != nil {
			k.limited.Info("Keystone validates tokens again")
		}
		return holder, err
	case errors.Is(err, keystone.ErrUnfitToken): // it tells of the caller, and not whether Keystone is there
		k.limited.Warn("token refused in front of Keystone or there, answering 401", "err", err)
		return holder, err
	case ctx.Err() != nil: // the caller's affair
		return holder, ctx.Err()
	}
	k.away.Store(&silence{why: err, since: k.now()})
	k.limited.Error("validate token at Keystone failed; callers with cached tokens are still served", "cache_time",
		k.conf.CacheTime, "err", err)
	return holder, refuse(http.StatusServiceUnavailable, "Keystone cannot be asked who you are; try again: %s",
		forStrangers(err))
}

// Away tells why Keystone did not answer when it was asked last, and nil if it did,
// or if it was not asked for some minutes. It is for operators: it may name users
// and files.
func (k *KeystoneAuth) Away() error {
	last := k.away.Load()
	if last == nil || k.now().Sub(last.since) >= awayFor {
		return nil
	}
	return last.why
}

// Check asks Keystone about this peer's own token, though no caller came, and keeps for
// Away what became of it. What ctx leaves is the time that Keystone has, if
// api.keystone.timeout is not less.
func (k *KeystoneAuth) Check(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, k.conf.Timeout)
	defer cancel()
	err := k.examiner.Check(bounded)
	switch {
	case err == nil:
		k.away.Store(nil)
	case !errors.Is(ctx.Err(), context.Canceled): // which is the caller's affair
		k.away.Store(&silence{why: err, since: k.now()})
	}
	return err
}

// forStrangers is the part of a failure that a caller without good credentials may
// read: Keystone's. The user's name and files are for the log.
func forStrangers(err error) string {
	var theirs *keystone.Error
	switch {
	case errors.As(err, &theirs):
		return theirs.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "it does not answer in time"
	}
	return "see the log of this peer"
}

// callerOf tells what the holder of a token may do here.
func (k *KeystoneAuth) callerOf(h keystone.Holder) Caller {
	c := Caller{Name: h.User, ID: h.UserID, Domain: h.UserDomain}
	switch {
	case h.System:
		c.Scope = "system"
	case h.Project != "" && h.ProjectDomain != "":
		c.Scope = "project " + h.ProjectDomain + "/" + h.Project
	case h.ProjectID != "":
		c.Scope = "project " + h.ProjectID
	case h.Domain != "":
		c.Scope = "domain " + h.Domain
	}
	switch {
	case hasRole(h, k.conf.AdminRoles):
		c.Role = RoleAdmin
	case hasRole(h, k.conf.ReaderRoles):
		c.Role = RoleReader
	}
	return c
}

// hasRole reports whether one of the roles wanted is the holder's. Keystone does
// not tell upper from lower case in their names.
func hasRole(h keystone.Holder, wanted []string) bool {
	return slices.ContainsFunc(wanted, func(want string) bool {
		name, system := strings.CutPrefix(want, config.SystemScope)
		if system && !h.System {
			return false
		}
		return slices.ContainsFunc(h.Roles, func(role string) bool { return strings.EqualFold(role, name) })
	})
}

// challenged is a refusal that tells the client how to do better.
type challenged struct {
	refusal   error
	challenge string // value of WWW-Authenticate
}

// Error implements error.
func (c *challenged) Error() string { return c.refusal.Error() }

// Unwrap gives the refusal.
func (c *challenged) Unwrap() error { return c.refusal }
