//go:build e2e

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/test/history"
	"github.com/trivet-ha/trivet/test/sandbox/machine"
	"github.com/trivet-ha/trivet/test/testwait"
)

// operator is a client of introspections. Each machine has one operator, who starts and
// aborts, and any operator looks at it.
type operator struct {
	*clients
	id  int
	rng *rand.Rand
}

func (o *operator) run(ctx context.Context) {
	for ctx.Err() == nil {
		n := o.rng.IntN(len(o.machines))
		own := n - n%operators + o.id
		verb := history.Read
		switch draw := o.rng.IntN(20); {
		case draw < 5 && own < len(o.machines):
			n, verb = own, history.Start
		case draw < 7 && own < len(o.machines):
			n, verb = own, history.Abort
		case draw < 9:
			verb = history.ReadData
		}
		o.once(verb, o.machines[n])
		testwait.Rest(ctx, time.Duration(20+o.rng.IntN(150))*time.Millisecond)
	}
}

// once asks one thing of a peer and writes down what it was told.
func (o *operator) once(verb history.Verb, m machine.Machine) {
	path, method := "/v1/introspection/"+m.UUID, http.MethodGet
	switch verb {
	case history.Start:
		method = http.MethodPost
	case history.Abort:
		method, path = http.MethodPost, path+"/abort"
	case history.ReadData:
		path += "/data"
	}
	o.operations.Add(1)
	in := history.NodeCall{Verb: verb, Node: m.UUID}
	call := time.Now().UnixNano()
	reply, err := o.ask(o.rng, nil, request{method: method, path: path})
	end := time.Now().UnixNano()
	switch {
	case err == nil:
		if out, ok := o.told(verb, m, reply.Status, reply.Body); ok {
			o.nodes.Add(o.id, in, out, call, end)
		}
	case method == http.MethodPost && !errors.Is(err, errNotSent):
		o.unknown.Add(1)
		o.nodes.Add(o.id, in, history.NodeTold{Said: history.Unknown}, call, math.MaxInt64)
	}
}

// nodeBody is what answers about introspections tell.
type nodeBody struct {
	State   string `json:"state"`
	Started string `json:"started_at"`
	Error   any    `json:"error"`
}

// told sorts an answer.
func (o *operator) told(verb history.Verb, m machine.Machine, status int, text []byte) (out history.NodeTold, ok bool) {
	switch {
	case status == http.StatusNotFound:
		out.Said = history.Nothing
	case status == http.StatusConflict:
		out.Said = history.Held
	case status == http.StatusBadRequest && bytes.Contains(text, []byte("Can not transition from state")):
		out.Said = history.Refused
		_, rest, _ := strings.Cut(string(text), "from state '")
		out.State, _, _ = strings.Cut(rest, "'")
	case status == http.StatusAccepted:
		out.Said = history.Yes
	case status == http.StatusOK && verb == history.ReadData:
		out.Said = history.Yes
		if !bytes.Contains(text, []byte(m.MACs[0])) {
			o.t.Errorf("the data of node %s is another machine's: %.200s", m.UUID, text)
		}
	case status == http.StatusOK:
		var body nodeBody
		if err := json.Unmarshal(text, &body); err != nil {
			o.t.Errorf("status of a node: answered %q: %v", text, err)
		}
		out = history.NodeTold{Said: history.Yes, State: body.State, Started: body.Started}
	default:
		o.t.Errorf("%v of node %s: answered %d %s", verb, m.UUID, status, text)
		return out, false
	}
	return out, true
}
