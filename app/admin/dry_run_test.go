package admin

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

// A route that makes something and commits nothing, as for an older log, tells a dry run
// nothing of it.
func TestDryRunThrowsAwayWhatARouteMade(t *testing.T) {
	e := echo.New()
	e.Use(dryRun)
	key := serve(http.StatusCreated, adminLimit, func(context.Context, echo.Context, none) (Credentials, error) {
		return Credentials{Key: "topsecret"}, nil
	})
	e.POST("/v1"+pathDryRun+"/key", key)
	e.POST("/v1/key", key)
	if w := send(e, http.MethodPost, "/v1"+pathDryRun+"/key", ""); w.Code != http.StatusOK ||
		strings.TrimSpace(w.Body.String()) != `{"before":"","after":""}` {
		t.Errorf("dry-run-shows-no-key: %d %s", w.Code, w.Body)
	}
	if w := send(e, http.MethodPost, "/v1/key", ""); w.Code != http.StatusCreated ||
		!strings.Contains(w.Body.String(), "topsecret") {
		t.Errorf("without --dry-run: %d %s", w.Code, w.Body)
	}
}
