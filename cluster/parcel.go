package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Bounds of the commands that one call carries.
const (
	maxParcels     = 64
	maxParcelBytes = 4 << 20 // of all commands, or of one: fsm.Encode makes none greater
	maxParcelCall  = maxParcelBytes + maxParcels*parcelHead
	// maxResults bounds the answer. Results are small: the greatest, of 64
	// claims, has some 20 KB.
	maxResults = 8 << 20
)

const (
	parcelHead = 4 // its length
	resultHead = 6 // its status and length
)

// packParcels writes the commands of a call: each after its length.
func packParcels(tickets []*ticket) []byte {
	size := 0
	for _, t := range tickets {
		size += parcelHead + len(t.question)
	}
	body := make([]byte, 0, size)
	for _, t := range tickets {
		body = binary.BigEndian.AppendUint32(body, uint32(len(t.question)))
		body = append(body, t.question...)
	}
	return body
}

var errParcels = errors.New("the commands of a call are not framed as they should be")

// unpackParcels reads the commands of a call; they are parts of body.
func unpackParcels(body []byte) (commands [][]byte, err error) {
	for len(body) > 0 {
		var command []byte
		if command, body, err = cutParcel(body); err != nil {
			return nil, err
		}
		if len(commands) == maxParcels {
			return nil, errParcels
		}
		commands = append(commands, command)
	}
	return commands, nil
}

// cutParcel takes what stands after its length off the front.
func cutParcel(body []byte) (parcel, rest []byte, err error) {
	if len(body) < parcelHead {
		return nil, nil, errParcels
	}
	size := uint64(binary.BigEndian.Uint32(body))
	if body = body[parcelHead:]; uint64(len(body)) < size {
		return nil, nil, errParcels
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

// readResults gives every command of a call its outcome. What has none, because
// the answer is cut off, is unknown.
func readResults(body []byte, tickets []*ticket) {
	for _, t := range tickets {
		if len(body) < resultHead {
			t.err = errParcels
			continue
		}
		status := int(binary.BigEndian.Uint16(body))
		answer, rest, err := cutParcel(body[2:])
		if err != nil {
			t.err, body = err, nil
			continue
		}
		t.answer, t.err, body = answer, answerError(status, answer), rest
	}
}

// serveProposals commits the commands of a call, all at once as if each had
// come alone, and answers when the last has its result.
func serveProposals(log Served) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxParcelCall))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		commands, err := unpackParcels(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		// A client that went away learns the outcome by asking again.
		_, _ = w.Write(proposeAll(r.Context(), log, commands))
	}
}

func proposeAll(ctx context.Context, log Served, commands [][]byte) []byte {
	answers, errs := make([][]byte, len(commands)), make([]error, len(commands))
	var proposing sync.WaitGroup
	for i, command := range commands {
		proposing.Go(func() { answers[i], errs[i] = log.ServeProposal(ctx, command) })
	}
	proposing.Wait()
	var body []byte
	for i := range commands {
		body = appendResult(body, answers[i], errs[i])
	}
	return body
}

// carryProposals makes one call of the commands.
func (l *link) carryProposals(ctx context.Context, tickets []*ticket) {
	body, err := l.call(ctx, http.MethodPost, pathPropose, packParcels(tickets))
	if err == nil {
		readResults(body, tickets)
		return
	}
	for _, t := range tickets {
		t.err = err
	}
}

// carryReads asks once for everybody: whoever asked before the question left
// may use the answer.
func (l *link) carryReads(ctx context.Context, tickets []*ticket) {
	answer, err := l.call(ctx, http.MethodGet, pathReadIndex, nil)
	if err == nil && len(answer) != readIndexSize {
		err = fmt.Errorf("the read index has %d bytes instead of %d", len(answer), readIndexSize)
	}
	for _, t := range tickets {
		t.answer, t.err = answer, err
	}
}
