package admin

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm/settings"
)

// An operator writes no key that does not begin with user.; what an earlier version let
// in can be read and deleted.
func TestSettingsOfOperatorsHaveTheirPrefix(t *testing.T) {
	log := newStates(t)
	control := (&Control{State: State{Log: log, Do: log}, Logger: slog.New(slog.DiscardHandler)}).Handler()
	call := func(method, key string) int {
		w := httptest.NewRecorder()
		control.ServeHTTP(w, httptest.NewRequest(method, "/v1/settings/"+key, strings.NewReader(`{"value":"v"}`)))
		return w.Code
	}
	for _, key := range []string{"inspection.sync.suspicion", "inspection.ramdisk-logs.00", "greeting", "user",
		"users.x"} {
		if code := call("PUT", key); code != http.StatusBadRequest {
			t.Errorf("%s was taken: %d", key, code)
		}
	}
	if code := call("PUT", "user.greeting"); code != http.StatusOK {
		t.Errorf("user.greeting: %d", code)
	}
	if _, err := log.Do(context.Background(), "", settings.PutSetting{Key: "greeting", Value: "hello"}); err != nil {
		t.Fatal(err)
	}
	if get, del := call("GET", "greeting"), call("DELETE", "greeting"); get != http.StatusOK ||
		del != http.StatusNoContent {
		t.Errorf("a key of an earlier version is read with %d, deleted with %d", get, del)
	}
}
