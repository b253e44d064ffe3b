package web

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// A session is a cookie and nothing else: the credentials of the login and an end,
// sealed with AES-256-GCM under a key that every peer derives from the cluster's
// CA key. Any peer opens it, so that a failover behind a floating IP logs no user
// out, and no peer keeps a table of sessions that could be filled. Each request
// judges the credentials again, as the API judges those of any client: a user who
// is removed, a password that is changed and a token that is revoked end the
// session, and a role that changes counts at once.
const (
	cookieName = "trivet_session"
	cookieEnds = 12 * time.Hour // after the login
	maxCookie  = 3800           // bytes of its value; browsers take 4096 with its name and attributes
	csrfHeader = "X-Trivet-Csrf"
	maxLogin   = 16 << 10 // bytes of the body of a login
	keyLabel   = "trivet page session 1"
)

// sealed is what the cookie holds.
type sealed struct {
	Authorization string `json:"a,omitempty"` // of http_basic
	Token         string `json:"t,omitempty"` // of Keystone
	Ends          int64  `json:"e"`           // Unix seconds
}

var errNoKey = &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeNoLeader,
	Message: "this peer has not received the cluster's state yet", Hint: "log in at another peer, or wait"}

// key is that of the sessions of this cluster.
func (p *Page) key() ([]byte, error) {
	secret := p.o.View().Secrets().CAKey
	if len(secret) == 0 {
		return nil, errNoKey
	}
	return hkdf.Key(sha256.New, secret, nil, keyLabel, 32)
}

func (p *Page) box() (cipher.AEAD, error) {
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("cipher of sessions: %w", err)
	}
	return cipher.NewGCM(block)
}

// seal makes the value of a cookie.
func (p *Page) seal(s sealed) (string, error) {
	box, err := p.box()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode the session: %w", err)
	}
	nonce := make([]byte, box.NonceSize())
	if _, err := io.ReadFull(p.o.Random, nonce); err != nil {
		return "", fmt.Errorf("nonce of the session: %w", err)
	}
	value := base64.RawURLEncoding.EncodeToString(box.Seal(nonce, nonce, text, []byte(cookieName)))
	if len(value) > maxCookie {
		return "", &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid,
			Message: "the credentials are too long for a session", Hint: "use a Fernet token of Keystone"}
	}
	return value, nil
}

var errNoSession = errors.New("no session")

// open reads the session of a request. errNoSession: there is none, it has ended,
// or it is of another cluster.
func (p *Page) open(r *http.Request) (sealed, error) {
	cookie, err := r.Cookie(cookieName)
	if err != nil || len(cookie.Value) > maxCookie {
		return sealed{}, errNoSession
	}
	box, err := p.box()
	if err != nil {
		return sealed{}, err
	}
	raw, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(raw) < box.NonceSize() {
		return sealed{}, errNoSession
	}
	text, err := box.Open(nil, raw[:box.NonceSize()], raw[box.NonceSize():], []byte(cookieName))
	if err != nil {
		return sealed{}, errNoSession
	}
	var s sealed
	if err := json.Unmarshal(text, &s); err != nil || p.o.Wall().Unix() >= s.Ends {
		return sealed{}, errNoSession
	}
	return s, nil
}

// authenticated returns r with the credentials of its session in place of its own:
// a browser adds a password that it knows to each request.
func (p *Page) authenticated(r *http.Request) (*http.Request, error) {
	out := r.Clone(r.Context())
	out.Header.Del("Authorization")
	out.Header.Del("X-Auth-Token")
	out.Header.Del("Cookie")
	s, err := p.open(r)
	switch {
	case errors.Is(err, errNoSession):
		return out, nil // noauth; all others ask for credentials
	case err != nil:
		return nil, err
	}
	if s.Authorization != "" {
		out.Header.Set("Authorization", s.Authorization)
	}
	if s.Token != "" {
		out.Header.Set("X-Auth-Token", s.Token)
	}
	return out, nil
}

// csrf is the token that a request that changes something must show in a header. It
// belongs to the session: a page of another site neither reads it nor sets a header.
func (p *Page) csrf(r *http.Request) (string, error) {
	key, err := p.key()
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("csrf\x00")) // never fails, as the next
	if cookie, err := r.Cookie(cookieName); err == nil {
		mac.Write([]byte(cookie.Value))
	}
	return hex.EncodeToString(mac.Sum(nil)[:16]), nil
}

// ownSite refuses a request that a browser sent for a page of another site.
func ownSite(r *http.Request) error {
	if http.NewCrossOriginProtection().Check(r) != nil {
		return &api.Error{Status: http.StatusForbidden, Code: api.CodeNotAuthorised,
			Message: "A browser sent this request for a page of another site"}
	}
	return nil
}

// fromPage refuses a request that would change something and that the page of this
// session did not send.
func (p *Page) fromPage(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if err := ownSite(r); err != nil {
		return err
	}
	want, err := p.csrf(r)
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(r.Header.Get(csrfHeader)), []byte(want)) {
		return &api.Error{Status: http.StatusForbidden, Code: api.CodeNotAuthorised,
			Message: "The request does not show the token of its session", Hint: "reload the page"}
	}
	return nil
}

// whoami is what the page knows of its user.
type whoami struct {
	User     string `json:"user"`
	Role     string `json:"role"`
	Operator bool   `json:"operator"` // may change the cluster, see operation
	Strategy string `json:"strategy"`
	CSRF     string `json:"csrf"`
}

// session tells the page who its user is.
func (p *Page) session(w http.ResponseWriter, r *http.Request) error {
	as, err := p.authenticated(r)
	if err != nil {
		return err
	}
	who, proved, err := p.o.Guard.Caller(as)
	if err != nil {
		return err
	}
	return p.placed(admission.Request, func(w http.ResponseWriter, r *http.Request) error {
		token, err := p.csrf(r)
		if err != nil {
			return err
		}
		return p.reply(w, r, http.StatusOK, whoami{
			User: who.Name, Role: who.Role.String(), Operator: proved && who.Role >= api.RoleAdmin,
			Strategy: p.o.Strategy, CSRF: token,
		})
	})(w, r)
}

// login is what a user types.
type login struct {
	User     string `json:"user"`
	Password string `json:"password"`
	Token    string `json:"token"` // of Keystone
}

// logIn judges credentials and makes a session of them.
func (p *Page) logIn(w http.ResponseWriter, r *http.Request) error {
	if err := ownSite(r); err != nil {
		return err
	}
	text, release, err := api.StrangersBody(p.o.Admission, p.o.Proxies, w, r, maxLogin)
	defer release()
	if err != nil {
		return err
	}
	var in login
	if err := json.Unmarshal(text, &in); err != nil {
		return invalid("the login cannot be read: " + err.Error())
	}
	s := sealed{Token: in.Token, Ends: p.o.Wall().Add(cookieEnds).Unix()}
	as := r.Clone(r.Context())
	as.Header.Del("Authorization")
	as.Header.Set("X-Auth-Token", in.Token)
	if in.Token == "" {
		as.Header.Del("X-Auth-Token")
		as.SetBasicAuth(in.User, in.Password)
		s.Authorization = as.Header.Get("Authorization")
	}
	who, proved, err := p.o.Guard.Caller(as)
	p.o.Logins.Note(r, who, proved, err)
	if err != nil {
		return err
	}
	return p.placed(admission.Request, func(w http.ResponseWriter, r *http.Request) error {
		value, err := p.seal(s)
		if err != nil {
			return err
		}
		http.SetCookie(w, cookie(r, value, int(cookieEnds.Seconds())))
		w.WriteHeader(http.StatusNoContent)
		return nil
	})(w, r)
}

// logOut has the browser forget the session.
func (p *Page) logOut(w http.ResponseWriter, r *http.Request) error {
	if err := p.fromPage(r); err != nil {
		return err
	}
	http.SetCookie(w, cookie(r, "", -1))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// cookie has no Path: the browser takes the directory of the request, which is that
// of the page's requests also behind a proxy with a prefix.
func cookie(r *http.Request, value string, age int) *http.Cookie {
	secure := r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
	return &http.Cookie{Name: cookieName, Value: value, MaxAge: age, HttpOnly: true, Secure: secure,
		SameSite: http.SameSiteStrictMode}
}
