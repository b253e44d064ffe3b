package node

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// What became of a node that a command started or aborted.
const (
	resultAccepted   = "accepted"   // as asked, by the API
	resultFinished   = "finished"   // the introspection, well
	resultFailed     = "failed"     // the introspection ended in error
	resultRefused    = "refused"    // by the API: nothing was changed
	resultNotAsked   = "not_asked"  // no server took the question
	resultUnknown    = "unknown"    // asked, and the answer was lost
	resultUnfinished = "unfinished" // the introspection goes on
)

// nodeRun is one node of a command, with the field names of the API for what
// the API says.
type nodeRun struct {
	Node       string       `json:"node"`   // as it was named
	Result     string       `json:"result"` // "" until there is one
	UUID       string       `json:"uuid,omitempty"`
	State      string       `json:"state,omitempty"`
	Error      string       `json:"error,omitempty"`
	StartedAt  *client.Time `json:"started_at,omitempty"`
	FinishedAt *client.Time `json:"finished_at,omitempty"`
	failure    error        // Error with its exit code and hint
}

// learn takes over what a status says.
func (r *nodeRun) learn(s client.Introspection) {
	r.UUID, r.State, r.StartedAt = s.UUID, s.State, &s.StartedAt
	if !s.Ended() {
		return
	}
	r.FinishedAt = s.FinishedAt
	r.Result = resultFinished
	if s.State == client.StateError {
		r.fail(resultFailed, term.Fail(term.ExitFailed,
			"mend the cause and start it again; what the ramdisk sent, if it did: 'trivet introspection data save --unprocessed "+
				r.Node+"'",
			"the introspection ended in error: %s", term.Printable(s.Why())))
		r.Error = s.Why()
	}
}

func (r *nodeRun) fail(result string, err error) {
	r.Result, r.Error, r.failure = result, err.Error(), err
}

// refuse notes that the node was not taken, or perhaps was.
func (r *nodeRun) refuse(err error) {
	var none *client.NoAnswerError
	switch {
	case !errors.As(err, &none):
		r.fail(resultRefused, err)
	case none.Arrived():
		r.fail(resultUnknown, err)
	default:
		r.fail(resultNotAsked, err)
	}
}

// took is how long the introspection ran, as the API's clocks saw it.
func (r *nodeRun) took() string {
	if r.StartedAt == nil || r.FinishedAt == nil {
		return "-"
	}
	return r.FinishedAt.Sub(r.StartedAt.Time).Round(time.Second).String()
}

// board is what a command knows of its nodes. It may be used concurrently.
type board struct {
	wait bool // a node is done when its introspection ended, not when it was accepted

	mu      sync.Mutex
	runs    []nodeRun // in the order given
	trouble string    // why the newest look at the API failed, "" when it did not
}

// change lets do, which must not block, change the i-th node.
func (b *board) change(i int, do func(*nodeRun)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do(&b.runs[i])
}

// pending is the nodes whose introspection is under way, as numbers of runs.
func (b *board) pending() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []int
	for i := range b.runs {
		if b.runs[i].Result == resultAccepted {
			out = append(out, i)
		}
	}
	return out
}

// summary counts the nodes that are done, and says where all of them stand.
func (b *board) summary() (done, total int, detail string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := make(map[string]int)
	for i := range b.runs {
		r := &b.runs[i]
		switch {
		case r.Result == "":
			counts[stageAsking]++
			continue
		case r.Result == resultAccepted && r.State != "":
			counts[r.State]++
		default:
			counts[r.Result]++
		}
		if r.Result != resultAccepted || !b.wait {
			done++
		}
	}
	stages := []string{stageAsking, resultAccepted} // in the order of a life
	for _, s := range client.States() {
		if s != client.StateFinished && s != client.StateError { // these are told as the results that they are
			stages = append(stages, s)
		}
	}
	stages = append(stages, resultFinished, resultFailed, resultUnfinished, resultRefused, resultUnknown, resultNotAsked)
	var parts []string
	for _, stage := range stages {
		if n := counts[stage]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(stage, "_", " ")))
		}
	}
	detail = strings.Join(parts, ", ")
	if b.trouble != "" {
		detail += "; " + b.trouble
	}
	return done, len(b.runs), detail
}

// stageAsking is before there is any result.
const stageAsking = "to ask for"

// verdict is the error of the whole command: its exit code and hint are those
// of the first node that failed, in the order given.
func (b *board) verdict() error {
	var first *nodeRun
	failed, unfinished := 0, 0
	for i := range b.runs {
		r := &b.runs[i]
		if r.failure == nil {
			continue
		}
		if first == nil {
			first = r
		}
		if r.Result == resultUnfinished {
			unfinished++
		} else {
			failed++
		}
	}
	if first == nil {
		return nil
	}
	also := ""
	if unfinished > 0 {
		also = fmt.Sprintf(", and %d introspections go on without this command", unfinished)
	}
	err := first.failure
	switch n := len(b.runs); {
	case n == 1:
		err = fmt.Errorf("%s: %w", first.Node, err)
	case failed == 0:
		err = fmt.Errorf("%d of %d nodes: %w", unfinished, n, err)
	default:
		err = fmt.Errorf("%d of %d nodes failed%s; the first is %s: %w", failed, n, also, first.Node, err)
	}
	return &term.Failure{Code: term.ExitOf(first.failure), Err: err, Hint: term.HintOf(first.failure)}
}
