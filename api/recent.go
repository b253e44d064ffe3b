package api

import (
	"container/list"
	"crypto/sha256"
	"time"
)

// tokenID stands for a token: its HMAC under a key of this process. The token
// itself is not kept.
type tokenID [sha256.Size]byte

// recent keeps a bounded number of answers by key, each for a time of its own.
// When there is no room, the one that was asked for least recently goes. It is not
// safe for concurrent use.
type recent[K comparable, V any] struct {
	limit int
	byID  map[K]*list.Element
	order *list.List // of *remembered[K, V]; the front was asked for last
}

type remembered[K comparable, V any] struct {
	id    K
	value V
	until time.Time // by this process's own clock
	ends  time.Time // by the wall; zero: never
}

func newRecent[K comparable, V any](limit int) *recent[K, V] {
	return &recent[K, V]{limit: limit, byID: make(map[K]*list.Element), order: list.New()}
}

// get returns what counts now.
func (r *recent[K, V]) get(id K, now time.Time) (value V, ok bool) {
	at, ok := r.byID[id]
	if !ok {
		return value, false
	}
	kept := at.Value.(*remembered[K, V])
	if !now.Before(kept.until) || !kept.ends.IsZero() && !now.Before(kept.ends) {
		r.drop(at)
		return value, false
	}
	r.order.MoveToFront(at)
	return kept.value, true
}

// put keeps an answer.
func (r *recent[K, V]) put(kept remembered[K, V]) {
	if at, ok := r.byID[kept.id]; ok {
		r.drop(at)
	}
	if r.order.Len() >= r.limit {
		r.drop(r.order.Back())
	}
	r.byID[kept.id] = r.order.PushFront(&kept)
}

// forget drops what is kept under a key, if anything is.
func (r *recent[K, V]) forget(id K) {
	if at, ok := r.byID[id]; ok {
		r.drop(at)
	}
}

func (r *recent[K, V]) drop(at *list.Element) {
	delete(r.byID, r.order.Remove(at).(*remembered[K, V]).id)
}
