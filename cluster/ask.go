package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
)

// maxWords bounds what another peer says of itself, in bytes; wordsShown is how
// much of a refusal is repeated.
const (
	maxWords    = 1 << 20
	maxQuestion = 1 << 20 // to the leader, in bytes
	wordsShown  = 300
)

// Ask returns what another peer answers to a GET of path on the peers' port: what
// it says of itself, which no log knows. It takes as long as ctx lets it; a peer
// that hangs never answers.
func (f *Forwarder) Ask(ctx context.Context, m membership.Member, path string) ([]byte, error) {
	return f.exchange(ctx, m, http.MethodGet, path, nil)
}

// Tell posts what this peer has to say of itself to another.
func (f *Forwarder) Tell(ctx context.Context, m membership.Member, path string, words []byte) error {
	_, err := f.exchange(ctx, m, http.MethodPost, path, words)
	return err
}

// AskLeader posts a question to the leader, for services that work on the log
// without a command of their own. Errors are those of Propose.
func (f *Forwarder) AskLeader(ctx context.Context, leader raftstore.Server, path string, question []byte) ([]byte,
	error) {
	l, err := f.link(leader.Address)
	if err != nil {
		return nil, err
	}
	return l.call(ctx, http.MethodPost, path, question)
}

// AnswerHandler answers what AskLeader of other members asks.
func AnswerHandler(answer func(ctx context.Context, path string, question []byte) ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		said, err := answer(r.Context(), r.URL.Path, question)
		reply(w, said, err)
	})
}

func (f *Forwarder) exchange(ctx context.Context, m membership.Member, method, path string, words []byte) ([]byte,
	error) {
	l, err := f.link(ServerAddress(m.ID, m.Address))
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+l.hostport+path, bytes.NewReader(words))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", m.Name, err)
	}
	resp, err := l.transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", m.Name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxWords+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer of %s: %w", m.Name, err)
	case len(body) > maxWords:
		return nil, fmt.Errorf("the answer of %s has more than %d bytes", m.Name, maxWords)
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s does not know the question: it runs another version", m.Name)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answered %s: %.*s", m.Name, resp.Status, wordsShown, bytes.TrimSpace(body))
	}
	return body, nil
}
