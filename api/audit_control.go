package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/labstack/echo/v4"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/cluster/pki"
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

// pageKey finds the call of a request that the page makes for a user.
type pageKey struct{}

// ForPage returns r as a request that the page at /ui/ makes for a user of the
// public API: the audit of Control names that user, and page as the interface. What
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
	made := &call{api: "control", caller: Caller{Name: whoNobody}, sender: "socket"}
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

// audit tells the calls that change something, and that which takes the whole
// state away, the cluster's keys in it. A check of an import changes nothing, and
// there are as many as nodes.
func (c *Control) audit(next echo.HandlerFunc) echo.HandlerFunc {
	told := audited(c.Logger, nil, c.Report, controlCall)(next)
	return func(ctx echo.Context) error {
		switch ctx.Request().Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
			if ctx.Path() != pathSnapshot {
				return next(ctx)
			}
		case http.MethodPost:
			if checking(ctx) && (ctx.Path() == pathImportRecords || ctx.Path() == pathImportRules) {
				return next(ctx)
			}
		}
		return told(ctx)
	}
}
