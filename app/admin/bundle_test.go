package admin

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/internal/supportbundle"
)

func TestABundleIsOfThisPeer(t *testing.T) {
	files := []supportbundle.File{{Name: "log.txt", Text: "own"}, {Name: "gone.txt", Error: "not kept"}}
	host := Host{Status: func() api.Status { return api.Status{Build: api.Build{Name: "h2", ID: "id-h2"}} },
		Bundle: func() []supportbundle.File { return files }}
	w := send((&Control{Host: host}).Handler(), "GET", "/v1/debug/bundle", "")
	var got HostFiles
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	if want := (HostFiles{"h2", files}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
