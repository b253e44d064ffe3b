//go:build e2e

package labtest

import (
	"net/http"
	"testing"
	"time"
)

// web asks the API's port.
func (p *Peer) web(t *testing.T, path string) (status int, took time.Duration) {
	t.Helper()
	client := http.Client{Timeout: callLimit}
	began := time.Now()
	resp, err := client.Get("http://" + p.API + path)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return 0, time.Since(began)
	}
	resp.Body.Close()
	return resp.StatusCode, time.Since(began)
}
