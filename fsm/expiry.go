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

// end dispatches on what is over. The deadline is out of the table already.
func (t *txn) end(c class, id []byte) {
	switch c {
	case dueSession:
		if s, ok := t.peers.sessions.get(id); ok && t.peers.members.has([]byte(s.Peer)) {
			t.recordMember(ActionLost, s.Peer)
		}
		t.endSession(tailToken(id))
	case dueJoin:
		t.joins.drop(id)
	case dueLease:
		t.endLease(string(id))
	case dueRelay:
		t.expireRelay(tailToken(id))
	case dueRemediation:
		t.expireRemediation(tailToken(id))
	case duePause:
		t.failover.pauses.drop(id)
	case dueHold:
		t.failover.holds.drop(id)
	}
}
