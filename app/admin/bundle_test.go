package admin

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/internal/supportbundle"
)

// talkative has one file.
type talkative string

func (f talkative) Bundle() []supportbundle.File {
	return []supportbundle.File{{Name: "log.txt", Text: string(f)}, {Name: "gone.txt", Error: "not kept"}}
}

// standsAs is a peer that knows its name.
type standsAs string

func (s standsAs) Status() api.Status { return api.Status{Name: string(s), ID: "id-" + string(s)} }
func (standsAs) Peers() []api.Peer    { return nil }

func TestABundleIsOfThisPeer(t *testing.T) {
	w := send((&Control{Local: standsAs("h2"), Bundler: talkative("own")}).Handler(), "GET", "/v1/debug/bundle", "")
	var got HostFiles
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	if want := (HostFiles{"h2", talkative("own").Bundle()}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
