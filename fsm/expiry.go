package fsm

import "encoding/binary"

// class says what ends at a deadline; it is the order within one instant.
type class byte

const (
	dueSession     class = 's'
	dueJoin        class = 'j'
	dueLease       class = 'l'
	dueRelay       class = 'r'
	dueRemediation class = 'm'
	duePause       class = 'p'
	dueHold        class = 'h'
)

// ending is what ends by itself in a domain.
type ending struct {
	class class
	end   func(t *txn, id []byte)
	due   func(d *data, expect expectation) // names all its deadlines, for Check
}

// expectation is told the deadline of a record.
type expectation func(at Time, id []byte)

// endings is all that ends by itself.
var endings = of(func(d domain) []ending { return d.ends })

// arm notes that something ends at a time; disarm takes it back. The record
// itself holds the same time, so that it can be found again. Every entry looks
// at the first deadline only: what does not end costs nothing.
func (d *data) arm(at Time, c class, id []byte) { d.due.put(dueKey(at, c, id), none{}) }

func (d *data) disarm(at Time, c class, id []byte) { d.due.drop(dueKey(at, c, id)) }

func dueKey(at Time, c class, id []byte) []byte {
	return longKey(uint64(at), append([]byte{byte(c)}, id...))
}

// expire ends everything whose deadline is not after cluster time.
func (t *txn) expire() {
	for {
		key, _, ok := t.due.first()
		if !ok || Time(binary.BigEndian.Uint64(key)) > t.now() {
			break
		}
		t.due.drop(key)
		t.end(class(key[8]), key[9:])
	}
	t.forget()
}

// end does what follows when something is over. The deadline is out of the table already.
func (t *txn) end(c class, id []byte) {
	for i := range endings {
		if endings[i].class == c {
			endings[i].end(t, id)
		}
	}
}
