package api

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/trivet-ha/trivet/inspector"
)

// Logins audits those who log in at the page at /ui/. It may be used concurrently.
type Logins struct {
	proxies   []netip.Prefix
	strangers *unproved
	logger    *slog.Logger
	counted   func(ok bool)
}

// NewLogins returns an audit of logins. counted is called for each login that was
// judged.
func NewLogins(proxies []netip.Prefix, counted func(ok bool), logger *slog.Logger) *Logins {
	return &Logins{proxies: proxies, strangers: newUnproved(logger), logger: logger, counted: counted}
}

// Note tells of a login. err is why it was refused. Of refused ones a source gets some
// lines a minute, as everywhere; see unproved.
func (l *Logins) Note(r *http.Request, who Caller, proved bool, err error) {
	if l == nil {
		return
	}
	made := publicCall(r, l.proxies)
	made.api, made.caller, made.proved = "page", who, proved
	status := http.StatusNoContent
	if err != nil {
		made.caller, status = Caller{Name: whoUnauthenticated}, translate(err).Status
	}
	var said *inspector.Refusal
	if err == nil || errors.As(err, &said) && status == http.StatusUnauthorized {
		l.counted(err == nil)
	}
	if made.worth(l.strangers, status) {
		made.logCall(l.logger.With(requestKeys(r.Context())...), r.Method, r.URL.Path, status)
	}
}
