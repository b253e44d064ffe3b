package probe

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
)

// What is found is told when it changes, and not every minute.
func TestFindingsAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	p := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	rogue := []Server{{Address: netip.MustParseAddr("192.0.2.5"), MAC: "52:54:00:00:00:09"}}
	away := errors.New("no such interface")
	for i, c := range []struct {
		servers []Server
		err     error
		says    string
	}{
		{nil, nil, ""},
		{rogue, nil, "192.0.2.5"},
		{rogue, nil, ""},
		{nil, nil, "any more"},
		{nil, away, "filter failed"},
		{nil, away, ""},
		{nil, nil, "works again"},
		{nil, nil, ""},
	} {
		log.Reset()
		p.recordAnswers(c.servers, c.err)
		if got := log.String(); (got != "") != (c.says != "") || !strings.Contains(got, c.says) {
			t.Errorf("test %d says %q, want %q", i, got, c.says)
		}
		if servers, err := p.Found(); len(servers) != len(c.servers) || !errors.Is(err, c.err) {
			t.Errorf("test %d found %v, %v", i, servers, err)
		}
	}
}

func TestWithoutAnInterfaceThereIsAReason(t *testing.T) {
	p := New(Options{Interface: "trivet-nothing", Random: strings.NewReader("xid."),
		Logger: slog.New(slog.DiscardHandler)})
	if _, err := p.Test(t.Context()); err == nil || !strings.Contains(err.Error(), `no interface "trivet-nothing"`) {
		t.Errorf("%v", err)
	}
}
