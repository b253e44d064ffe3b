package cluster

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/trivet-ha/trivet/raftstore"
)

// PathAge is where a new leader asks each voter how long ago it acknowledged a leader of an
// earlier term than that of the question.
const PathAge = "/peer/v1/age"

// ageSize is how many bytes an age has, in nanoseconds.
const ageSize = 8

// Voter is the part of the log that knows what this peer has acknowledged.
type Voter interface {
	ServeAge(term uint64) (time.Duration, error)
}

// Age implements raftstore.Forwarder. The connection is to a peer that has proved by its
// certificate that it is the voter. Questions are not shared, as those of readers are: an
// answer belongs to one leadership.
func (f *Forwarder) Age(ctx context.Context, voter raftstore.Server, term uint64) (time.Duration, error) {
	l, err := f.link(voter.Address)
	if err != nil {
		return 0, err
	}
	answer, err := l.call(ctx, http.MethodGet, PathAge+"?term="+strconv.FormatUint(term, 10), nil)
	if err != nil {
		return 0, fmt.Errorf("ask voter %s for the age of its acknowledgements: %w", voter.ID, err)
	}
	if len(answer) != ageSize {
		return 0, fmt.Errorf("ask voter %s for the age of its acknowledgements: the answer has %d bytes", voter.ID,
			len(answer))
	}
	return time.Duration(binary.BigEndian.Uint64(answer)), nil
}

// AgeHandler answers what Age of other members asks.
func AgeHandler(log Voter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		term, err := strconv.ParseUint(r.URL.Query().Get("term"), 10, 64)
		if err != nil {
			http.Error(w, "term: "+err.Error(), http.StatusBadRequest)
			return
		}
		age, err := log.ServeAge(term)
		reply(w, binary.BigEndian.AppendUint64(nil, uint64(age)), err)
	})
}
