package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"

	"github.com/labstack/echo/v4"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// processKey finds who is at the other end of a unix socket.
type processKey struct{}

// SocketContext is for http.Server.ConnContext on the unix socket: it asks the
// kernel who connected, for the audit.
func SocketContext(ctx context.Context, conn net.Conn) context.Context {
	who, err := processOf(conn)
	if err != nil {
		who = "a process that cannot be told: " + err.Error()
	}
	return context.WithValue(ctx, processKey{}, who)
}

// processOf names the process that connected, as it was then.
func processOf(conn net.Conn) (who string, err error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return "", fmt.Errorf("%T is no unix socket", conn)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return "", err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, failed); err != nil {
		return "", err
	}
	return fmt.Sprintf("uid %d (process %d)", cred.Uid, cred.Pid), nil
}

// SocketPath is where the API stands on the unix socket, besides the control interface.
const SocketPath = "/api"

// SocketAuth is the strategy for callers on the unix socket: its mode says who may
// connect, and these may do everything. The audit names the process.
type SocketAuth struct{}

// WellFormed implements Auth.
func (SocketAuth) WellFormed(*http.Request) error { return nil }

// Identify implements Auth.
func (SocketAuth) Identify(r *http.Request, _ netip.Addr) (Caller, error) {
	who, ok := r.Context().Value(processKey{}).(string)
	if !ok {
		return Caller{}, errUnauthorized() // it came another way
	}
	return Caller{Name: who, Role: RoleAdmin}, nil
}

// pageKey finds the call of a request that the page makes for a user.
type pageKey struct{}

// ForPage returns r as a request that the page at /ui/ makes for a user of the
// public API: the audit of the control interface names that user, and page as the interface. What
// the user may do is judged before.
func (i *Inspector) ForPage(r *http.Request, who Caller) *http.Request {
	made := publicCall(r, i.Proxies)
	made.api, made.caller, made.proved = "page", who, true
	return r.WithContext(context.WithValue(r.Context(), pageKey{}, made))
}

// controlCall begins the audit of a request to the control interface: by an
// operator, whose certificate the handshake proved, or a process of this host.
func controlCall(r *http.Request) *call {
	if made, ok := r.Context().Value(pageKey{}).(*call); ok {
		return made
	}
	made := &call{api: "control", caller: Caller{Name: whoUnauthenticated}, sender: "socket"}
	if who, ok := r.Context().Value(processKey{}).(string); ok {
		made.caller.Name, made.proved = who, true
		return made
	}
	made.sender = nameOf(parseAddress(r.RemoteAddr))
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		if id, err := pki.IdentityOf(r.TLS.PeerCertificates[0]); err == nil {
			made.caller.Name, made.proved = id.String(), true
		}
	}
	return made
}

// Front is what every call of the control interface passes on its way to a route: the
// audit, and a place of its route's class.
type Front struct {
	Class     func(method, path string) admission.Class
	Told      func(echo.Context) bool // the audit has a line for the call
	Admission *admission.Controller
	Report    func(eventring.Report) // records the audit as events; nil: it is not recorded
	Logger    *slog.Logger           // of the audit
}

// Echo returns a server without routes behind f.
func (f Front) Echo() *echo.Echo {
	e := NewEcho()
	e.Use(f.audit, f.admit)
	return e
}

// NewEcho returns a server without routes, which answers errors as refusals.
func NewEcho() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = render
	return e
}

func (f Front) audit(next echo.HandlerFunc) echo.HandlerFunc {
	told := audited(f.Logger, nil, f.Report, controlCall)(next)
	return func(ctx echo.Context) error {
		if f.Told(ctx) {
			return told(ctx)
		}
		return next(ctx)
	}
}

// admit runs each route in a place of its class.
func (f Front) admit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(ctx echo.Context) error {
		return admitted(f.Admission, f.Class(ctx.Request().Method, ctx.Path()), controlCaller, next)(ctx)
	}
}

// controlCaller is who asks: a process of this host, an operator whom the handshake
// proved, or a user of the page.
func controlCaller(ctx echo.Context) admission.Caller {
	r := ctx.Request()
	change := r.Method != http.MethodGet && r.Method != http.MethodHead
	if made, ok := r.Context().Value(pageKey{}).(*call); ok {
		return admission.Caller{Source: made.source, Known: made.caller.Role == RoleAdmin, Change: change}
	}
	return admission.Caller{Source: admission.SourceOf(parseAddress(r.RemoteAddr)), Known: true, Change: change}
}

// OnSocket reports whether a call of the control interface came by the unix socket.
func OnSocket(ctx echo.Context) bool { return !controlCaller(ctx).Source.IsValid() }

// CallerName is who asks, as the audit names it.
func CallerName(ctx context.Context) string {
	if made := callOf(ctx); made != nil {
		return made.caller.Name
	}
	return whoUnauthenticated
}
