package app

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/trivet-ha/trivet/api"
)

// TestSocketNeedsNoCredentials: who may connect to the socket may use the API there, which the
// public listener refuses without credentials; a request that came another way is refused there too.
func TestSocketNeedsNoCredentials(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a peer")
	}
	r := newReloadable(t)
	users := t.TempDir() + "/htpasswd"
	writeFiles(t, "", map[string]string{users: "admin:$2y$05$abcdefghijklmnopqrstuuN8B1W0gAcJ0m9h4W1Zs0m3c4m5n6o7p\n"})
	r.must("api.auth_strategy", "http_basic", "api.http_basic_auth_user_file", users)
	ask := func(h http.Handler, path string, req *http.Request) int {
		w := httptest.NewRecorder()
		req.URL.Path = path
		h.ServeHTTP(w, req)
		return w.Code
	}
	get := func() *http.Request { return httptest.NewRequest(http.MethodGet, "http://trivet/", nil) }
	if code := ask(r.serving.doorway, "/v1/introspection", get()); code != http.StatusUnauthorized {
		t.Errorf("public, without credentials: %d", code)
	}
	socket := r.serving.onSocket(r.admin.Handler())
	if code := ask(socket, api.SocketPath+"/v1/introspection", get()); code != http.StatusUnauthorized {
		t.Errorf("socket-asks-who-connected: %d", code)
	}
	code, err := r.onSocket(api.SocketPath + "/v1/introspection")
	if err != nil || code != http.StatusOK {
		t.Errorf("socket-needs-no-credentials: %d, %v", code, err)
	}
	if code, err := r.onSocket("/v1/status"); err != nil || code != http.StatusOK {
		t.Errorf("the control interface: %d, %v", code, err)
	}
}

// onSocket asks the peer on its socket.
func (r *reloadable) onSocket(path string) (int, error) {
	web := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", r.opts.Config.Socket)
	}}}
	defer web.CloseIdleConnections()
	resp, err := web.Get("http://trivet" + path)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
