//go:build e2e

package chaos

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/test/history"
	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/testwait"
)

// leaseTTL is that of every lease here: just above the least of raft.timing normal.
const leaseTTL = 4600 * time.Millisecond

// newBorrower returns a client of leases.
func (c *clients) newBorrower(id int) *history.Borrower {
	b := &history.Borrower{ID: id, Name: fmt.Sprintf("client-%d", id), TTL: leaseTTL, Leases: []string{"db", "disk"},
		History: &c.leases, Rand: rand.New(rand.NewPCG(c.seed, uint64(1000+id))), Rest: testwait.Rest, Broken: c.t.Errorf}
	b.Try = func(in history.LeaseCall) (history.Told, error) {
		c.operations.Add(1)
		out, err := c.tryLease(b.Rand, in)
		if err != nil {
			c.unknown.Add(1)
		}
		return out, err
	}
	return b
}

// leaseBody is what answers about leases and values tell.
type leaseBody struct {
	Holder  string        `json:"holder"`
	Token   fencing.Token `json:"token"`
	Version fencing.Token `json:"version"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
}

// leaseRequest is how the API is asked.
func leaseRequest(in history.LeaseCall) request {
	path := "/v1/leases/" + in.Lease
	shown, err := json.Marshal(map[string]string{"holder": in.Holder, "token": in.Token.String()})
	if err != nil {
		panic(err) // two strings
	}
	switch in.Verb {
	case history.Acquire:
		body, err := json.Marshal(map[string]any{"holder": in.Holder, "ttl_ms": in.TTL.Milliseconds(),
			"takeover": in.Takeover, "request_id": in.Data})
		if err != nil {
			panic(err) // strings and numbers
		}
		return request{method: http.MethodPut, path: path, body: body}
	case history.Renew:
		return request{method: http.MethodPost, path: path + "/renew", body: shown}
	case history.Release:
		return request{method: http.MethodDelete, path: path, body: shown}
	case history.Write:
		return request{method: http.MethodPut, path: "/v1/kv/under." + in.Lease + "?request_id=" + url.QueryEscape(in.Data),
			header: map[string]string{"Fencing-Token": in.Lease + ":" + in.Token.String()}, body: []byte(in.Data)}
	case history.Read:
		return request{method: http.MethodGet, path: "/v1/kv/under." + in.Lease}
	}
	return request{method: http.MethodGet, path: path}
}

// tryLease asks a peer once. An error says that there is no answer.
func (c *clients) tryLease(rng *rand.Rand, in history.LeaseCall) (out history.Told, err error) {
	reply, err := c.ask(rng, nil, leaseRequest(in))
	out.Returned = time.Now().UnixNano()
	if err != nil {
		return out, err
	}
	var body leaseBody
	if in.Verb != history.Read && len(reply.Body) > 0 {
		if err := json.Unmarshal(reply.Body, &body); err != nil {
			c.t.Errorf("%v of a lease: answered %d %q: %v", in.Verb, reply.Status, reply.Body, err)
		}
	}
	out.Holder, out.Token = body.Holder, body.Token
	switch reply.Status {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent:
		out.Said = history.Yes
		switch {
		case in.Verb == history.Read:
			out.Data = string(reply.Body)
			out.Token = etag(reply)
		case in.Verb == history.Write:
			out.Token = body.Version
		case in.Verb == history.Look && body.Holder == "":
			out.Said = history.Over
		}
	case http.StatusConflict:
		out.Said = history.Held
	case http.StatusGone:
		out.Said = history.Over
		_, rest, _ := strings.Cut(body.Error.Message, "under token ")
		number, _, _ := strings.Cut(rest, ",")
		out.Token, _ = fencing.ParseToken(number) // of an acquisition; others do not say
	case http.StatusPreconditionFailed:
		out.Said = history.Fenced
	case http.StatusNotFound:
		out.Said = history.Nothing
	default:
		c.t.Errorf("%v of a lease: answered %d %s", in.Verb, reply.Status, reply.Body)
	}
	return out, nil
}

// etag is the version that an answer has.
func etag(reply httpapi.Reply) fencing.Token {
	version, _ := fencing.ParseToken(strings.Trim(reply.Header.Get("ETag"), `"`)) // 0: none
	return version
}
