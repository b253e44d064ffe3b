package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/trivet-ha/trivet/raftstore/batcher"
)

// Bounds of the commands that one call carries.
const (
	maxProposals     = 64
	maxProposalBytes = 4 << 20 // of all commands, or of one: fsm.Encode makes none greater
	maxProposalsBody = maxProposalBytes + maxProposals*proposalHead
	// maxResults bounds the answer. Results are small: the greatest, of 64
	// claims, has some 20 KB.
	maxResults = 8 << 20
)

const (
	proposalHead = 4 // its length
	resultHead   = 6 // its status and length
)

// proposal is a command and its outcome.
type proposal = batcher.Call[[]byte, []byte]

// encodeProposals writes the commands of a call: each after its length.
func encodeProposals(calls []*proposal) []byte {
	size := 0
	for _, c := range calls {
		size += proposalHead + len(c.Request)
	}
	body := make([]byte, 0, size)
	for _, c := range calls {
		body = binary.BigEndian.AppendUint32(body, uint32(len(c.Request)))
		body = append(body, c.Request...)
	}
	return body
}

var errFraming = errors.New("the commands of a call are not framed as they should be")

// decodeProposals reads the commands of a call; they are parts of body.
func decodeProposals(body []byte) (commands [][]byte, err error) {
	for len(body) > 0 {
		var command []byte
		if command, body, err = cutFrame(body); err != nil {
			return nil, err
		}
		if len(commands) == maxProposals {
			return nil, errFraming
		}
		commands = append(commands, command)
	}
	return commands, nil
}

// cutFrame takes what stands after its length off the front.
func cutFrame(body []byte) (frame, rest []byte, err error) {
	if len(body) < proposalHead {
		return nil, nil, errFraming
	}
	size := uint64(binary.BigEndian.Uint32(body))
	if body = body[proposalHead:]; uint64(len(body)) < size {
		return nil, nil, errFraming
	}
	return body[:size:size], body[size:], nil
}

// appendResult writes the outcome of one command: status, length, result or
// error text.
func appendResult(body, answer []byte, err error) []byte {
	if err != nil {
		answer = []byte(err.Error())
	}
	body = binary.BigEndian.AppendUint16(body, uint16(statusOf(err)))
	body = binary.BigEndian.AppendUint32(body, uint32(len(answer)))
	return append(body, answer...)
}

// decodeResults gives every command of a call its outcome. What has none, because
// the answer is cut off, is unknown.
func decodeResults(body []byte, calls []*proposal) {
	for _, c := range calls {
		if len(body) < resultHead {
			c.Err = errFraming
			continue
		}
		status := int(binary.BigEndian.Uint16(body))
		answer, rest, err := cutFrame(body[2:])
		if err != nil {
			c.Err, body = err, nil
			continue
		}
		c.Response, c.Err, body = answer, answerError(status, answer), rest
	}
}

// serveProposals commits the commands of a call, all at once as if each had
// come alone, and answers when the last has its result.
func serveProposals(log Served) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxProposalsBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		commands, err := decodeProposals(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answers, errs := make([][]byte, len(commands)), make([]error, len(commands))
		var proposing sync.WaitGroup
		for i, command := range commands {
			proposing.Go(func() { answers[i], errs[i] = log.ServeProposal(r.Context(), command) })
		}
		proposing.Wait()
		var results []byte
		for i := range commands {
			results = appendResult(results, answers[i], errs[i])
		}
		_, _ = w.Write(results) // a client that went away learns the outcome by asking again
	}
}

// sendProposals makes one call of the commands.
func (l *link) sendProposals(ctx context.Context, calls []*proposal) {
	body, err := l.call(ctx, http.MethodPost, pathPropose, encodeProposals(calls))
	if err == nil {
		decodeResults(body, calls)
		return
	}
	for _, c := range calls {
		c.Err = err
	}
}

// sendRead asks once for all calls: each came before the question left, and may use
// the answer.
func (l *link) sendRead(ctx context.Context, calls []*batcher.Call[struct{}, uint64]) {
	answer, err := l.call(ctx, http.MethodGet, pathReadIndex, nil)
	if err == nil && len(answer) != readIndexSize {
		err = fmt.Errorf("the read index has %d bytes instead of %d", len(answer), readIndexSize)
	}
	var index uint64
	if err == nil {
		index = binary.BigEndian.Uint64(answer)
	}
	for _, c := range calls {
		c.Response, c.Err = index, err
	}
}
