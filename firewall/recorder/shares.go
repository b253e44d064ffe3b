package recorder

import "time"

// Shares of the work of a second for machines under introspection: any machine on the network may
// send frames with their MACs. What one sends itself, and what is sent to it, have a share each.
const (
	// sureShare is how many messages are always read: a flood of others takes nothing of it.
	sureShare = 10
	// fullShare is how many are read while there is work left: the firmware and iPXE of one
	// machine may boot within a second.
	fullShare = 50
	// allShares is from how many messages of all machines on each has its sure share alone.
	allShares = 5000
)

// side is a machine, or those who answer it.
type side struct {
	mac      string
	answered bool
}

// shares count what was read in the present second.
type shares struct {
	ends time.Time
	read map[side]int
	all  int
}

// admit reports whether one more message may be read.
func (s *shares) admit(of side, now time.Time) bool {
	if !now.Before(s.ends) {
		s.ends, s.read, s.all = now.Add(time.Second), make(map[side]int), 0
	}
	n := s.read[of]
	if n >= fullShare || n >= sureShare && s.all >= allShares {
		return false
	}
	s.read[of], s.all = n+1, s.all+1
	return true
}
