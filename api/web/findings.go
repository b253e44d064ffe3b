package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// examinedFor is how long findings are served again: an examination makes every
// host of the cluster work for seconds.
const examinedFor = 15 * time.Second

// examination is doctor's newest verdict on all hosts.
type examination struct {
	facts Facts
	now   func() time.Time

	mu    sync.Mutex // held while hosts are examined, at most some 12 s: one caller makes them work
	found findings
	at    time.Time
}

// findings is the answer.
type findings struct {
	Hosts    int              `json:"hosts"`
	Findings []doctor.Finding `json:"findings"`
	Examined string           `json:"examined_at"`
}

func (e *examination) readFindings(ctx context.Context) (findings, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.at.IsZero() && e.now().Sub(e.at) < examinedFor {
		return e.found, nil
	}
	hosts := e.facts.Facts(ctx, true)
	if err := ctx.Err(); err != nil {
		return findings{}, err // of a caller who went away; hosts did not answer for want of time
	}
	found, err := doctor.Judge(hosts, nil)
	if err != nil {
		return findings{}, err
	}
	e.at = e.now()
	e.found = findings{len(hosts), append([]doctor.Finding{}, found...), e.at.UTC().Format(time.RFC3339)}
	return e.found, nil
}

func (p *Page) doctor(w http.ResponseWriter, r *http.Request) error {
	found, err := p.findings.readFindings(r.Context())
	if err != nil {
		return err
	}
	return p.placed(admission.Request, func(w http.ResponseWriter, r *http.Request) error {
		return p.reply(w, r, http.StatusOK, found)
	})(w, r)
}
