//go:build e2e

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/test/history"
	"github.com/trivet-ha/trivet/test/testwait"
)

const (
	// valueEpoch is for how long clients work on a key: the search for an order is
	// exponential in the writes of a key whose outcome nobody knows.
	valueEpoch = 8 * time.Second
	// staleShare of the reads are stale ones.
	staleShare = 0.4
)

// writer is a client that compares and sets values. It knows the newest version that it
// has read, or was told.
type writer struct {
	*clients
	id  int
	rng *rand.Rand
	n   int
}

func (w *writer) run(ctx context.Context, began time.Time) {
	for ctx.Err() == nil {
		key := fmt.Sprintf("value-%d-%d", int(time.Since(began)/valueEpoch), w.rng.IntN(2))
		if w.rng.Float64() < staleShare {
			w.readStale(key)
		}
		version, known := w.read(key)
		if known && w.rng.IntN(3) > 0 {
			if w.rng.IntN(8) == 0 && version > 0 {
				version-- // no version of this value: refused
			}
			w.write(ctx, key, version)
		}
		testwait.Rest(ctx, time.Duration(20+w.rng.IntN(120))*time.Millisecond)
	}
}

// read reads the value, and reports whether there was an answer.
func (w *writer) read(key string) (version fencing.Token, known bool) {
	w.operations.Add(1)
	call := time.Now().UnixNano()
	reply, err := w.ask(w.rng, nil, request{method: http.MethodGet, path: "/v1/kv/" + key})
	end := time.Now().UnixNano()
	in := history.ValueCall{Verb: history.Read, Key: key}
	switch {
	case err != nil:
		return 0, false
	case reply.Status == http.StatusNotFound:
		w.values.Add(w.id, in, history.ValueTold{Said: history.Nothing}, call, end)
		return 0, true
	case reply.Status != http.StatusOK:
		w.t.Errorf("read of a value: answered %d %s", reply.Status, reply.Body)
		return 0, false
	}
	version = etag(reply)
	w.values.Add(w.id, in, history.ValueTold{Said: history.Yes, Version: version, Data: string(reply.Body)}, call, end)
	return version, true
}

// write replaces a version, 0 for none. After a lost answer it asks again under the same
// request ID until there is one, or leaves it at that.
func (w *writer) write(ctx context.Context, key string, version fencing.Token) {
	w.n++
	in := history.ValueCall{Verb: history.Write, Key: key, Version: version, Data: fmt.Sprintf("%d-%d", w.id, w.n)}
	r := request{method: http.MethodPut, path: "/v1/kv/" + key + "?request_id=" + in.Data, body: []byte(in.Data),
		header: map[string]string{"If-Match": strconv.Quote(version.String())}}
	if version == 0 {
		r.header = map[string]string{"If-None-Match": "*"}
	}
	patient, sent := w.rng.IntN(4) > 0, false
	call := time.Now().UnixNano()
	for {
		w.operations.Add(1)
		reply, err := w.ask(w.rng, nil, r)
		end := time.Now().UnixNano()
		if err == nil {
			w.values.Add(w.id, in, w.written(reply.Status, reply.Body), call, end)
			return
		}
		sent = sent || !errors.Is(err, errNotSent)
		if !patient || !testwait.Rest(ctx, time.Duration(w.rng.IntN(300))*time.Millisecond) {
			break
		}
	}
	if sent {
		w.unknown.Add(1)
		w.values.Add(w.id, in, history.ValueTold{Said: history.Unknown}, call, math.MaxInt64)
	}
}

func (w *writer) written(status int, text []byte) (out history.ValueTold) {
	var body leaseBody
	if err := json.Unmarshal(text, &body); err != nil {
		w.t.Errorf("write of a value: answered %d %q: %v", status, text, err)
	}
	out.Version = body.Version
	switch status {
	case http.StatusOK:
		out.Said = history.Yes
	case http.StatusPreconditionFailed:
		out.Said = history.Refused
	default:
		w.t.Errorf("write of a value: answered %d %s", status, text)
	}
	return out
}

// readStale asks one peer for its own state.
func (w *writer) readStale(key string) {
	w.operations.Add(1)
	p := w.Peers[w.rng.IntN(len(w.Peers))]
	r := history.StaleRead{Key: key, Peer: p.Name, Called: time.Now().UnixNano()}
	reply, err := w.ask(w.rng, p, request{method: http.MethodGet, path: "/v1/kv/" + key + "?stale=1"})
	if err != nil {
		return
	}
	r.Returned = time.Now().UnixNano()
	age := int64(math.MaxInt64 / 2 / time.Millisecond)
	if text := reply.Header.Get("X-Stale-For"); text != "" { // else nothing bounds it
		age, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil || reply.Status != http.StatusOK && reply.Status != http.StatusNotFound {
		w.t.Errorf("stale read of a value: answered %d %s, X-Stale-For %q", reply.Status, reply.Body,
			reply.Header.Get("X-Stale-For"))
		return
	}
	r.Age = age * int64(time.Millisecond)
	if reply.Status == http.StatusOK {
		r.Version, r.Data = etag(reply), string(reply.Body)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stale = append(w.stale, r)
}
