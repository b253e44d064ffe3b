package api

import (
	"crypto/sha256"
	"time"

	"github.com/hashicorp/golang-lru/simplelru"
)

// tokenID stands for a token: its HMAC under a key of this process. The token
// itself is not kept.
type tokenID [sha256.Size]byte

// recent keeps a bounded number of answers by token, each for a time of its own.
// When there is no room, the one that was asked for least recently goes. It is not
// safe for concurrent use.
type recent[V any] struct{ kept *simplelru.LRU } // of remembered[V]

type remembered[V any] struct {
	value V
	until time.Time // by this process's own clock
	ends  time.Time // by the wall; zero: never
}

func newRecent[V any](limit int) recent[V] {
	kept, err := simplelru.NewLRU(limit, nil)
	if err != nil {
		panic(err) // of a size below 1 alone
	}
	return recent[V]{kept}
}

// get returns what counts now.
func (r recent[V]) get(id tokenID, now time.Time) (value V, ok bool) {
	found, ok := r.kept.Get(id)
	if !ok {
		return value, false
	}
	kept := found.(remembered[V])
	if !now.Before(kept.until) || !kept.ends.IsZero() && !now.Before(kept.ends) {
		r.kept.Remove(id)
		return value, false
	}
	return kept.value, true
}

// put keeps an answer.
func (r recent[V]) put(id tokenID, answer remembered[V]) { r.kept.Add(id, answer) }

// forget drops the answer about a token, if there is one.
func (r recent[V]) forget(id tokenID) { r.kept.Remove(id) }
