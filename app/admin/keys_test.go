package admin

import (
	"crypto/rand"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
)

// Status and the table of certificates say whether this peer's certificate is
// good by its clock, at both ends.
func TestCertificatesAreWarnedOf(t *testing.T) {
	const day = 24 * time.Hour
	id, issued := uuid.NewString(), time.Now()
	ca, err := pki.NewCA(id, issued, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cred, err := cluster.Issue(ca, pki.PeerIdentity(id, uuid.NewString(), 1), issued, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after         time.Duration
		code, problem string
	}{
		{-2 * day, "certificate_not_yet_valid", "it is not valid yet"},
		{0, "", ""},
		{22 * day, "certificate_old", "its renewal is overdue"},
		{31 * day, "certificate_expired", "it has ended"},
	} {
		wall := func() time.Time { return issued.Add(c.after) }
		renewal := cluster.NewRenewal(cred, nil, wall, nil, slog.New(slog.DiscardHandler))
		code := ""
		for _, w := range KeyWarnings(fsm.New().View(), renewal.Credentials(), wall()) {
			code = w.Code
		}
		var row Certificate
		(&Keys{Here: &Here{Wall: wall}}).describe(&row, cred.Leaf)
		if code != c.code || row.Problem != c.problem {
			t.Errorf("%v after its issue: warning %q, problem %q; want %q, %q", c.after, code, row.Problem, c.code, c.problem)
		}
	}
}
