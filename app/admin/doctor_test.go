package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/trivet-ha/trivet/doctor"
)

// fakeDoctor knows the name of its peer and how long it may take.
type fakeDoctor struct{ name string }

func (f fakeDoctor) Facts(ctx context.Context) doctor.Facts {
	if _, bounded := ctx.Deadline(); !bounded && f.name == "h2" {
		return doctor.Facts{Peer: f.name, Error: "asked without a bound"}
	}
	return doctor.Facts{Peer: f.name, DHCP: doctor.DHCP{Listening: true}}
}

// patients are three other peers: one that answers by the name it gives
// itself, one that is silent and one that speaks nonsense.
func patients(ctx context.Context, path string) []Answer {
	w := httptest.NewRecorder()
	(&Control{Host: Host{Examine: fakeDoctor{"old-name"}.Facts}}).PeerHandler().ServeHTTP(w,
		httptest.NewRequestWithContext(ctx, "GET", path, nil))
	return []Answer{
		{Name: "h3", ID: "id-h3", Body: w.Body.Bytes()},
		{Name: "h1", ID: "id-h1", Err: errors.New("ask h1: connection refused")},
		{Name: "h4", ID: "id-h4", Body: []byte("<html>")},
	}
}

func TestDoctorAsksEveryPeer(t *testing.T) {
	ask := func(path string) []doctor.Facts {
		w := send((&Control{Host: Host{Examine: fakeDoctor{"h2"}.Facts, Ask: patients}}).Handler(), "GET", path, "")
		var rows []doctor.Facts
		if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s: %v", path, w.Code, w.Body, err)
		}
		return rows
	}
	if rows := ask("/v1/doctor"); len(rows) != 1 || rows[0].Peer != "h2" || rows[0].Error != "" {
		t.Errorf("alone: %+v", rows)
	}
	rows := ask("/v1/doctor?all=1")
	if len(rows) != 4 || rows[0].Peer != "h1" || rows[0].Error != "ask h1: connection refused" ||
		!rows[1].DHCP.Listening ||
		rows[2].Peer != "h3" || rows[2].ID != "id-h3" || !rows[2].DHCP.Listening || rows[3].Error == "" {
		t.Errorf("all: %+v", rows)
	}
}
