package leader

import (
	"fmt"
	"strings"
	"time"
)

// Bounds within which a voter counts on, as its leader sees it.
const (
	// silentMost is how old the newest request may be that it acknowledged;
	// heartbeats go out several times a second.
	silentMost = time.Second
	// behindMost is how many entries it may lack: more than a busy cluster has
	// under way, and less than takes a moment to send.
	behindMost = 1024
)

// Voter is one voter as its leader sees it at a moment.
type Voter struct {
	ID, Name string
	Silent   time.Duration // age of the newest request that it acknowledged
	Behind   uint64        // entries of the leader's log that it is not known to have
	Refuses  string        // why it would not lead; "" if it would
}

// Lives reports whether a server acknowledged a request so lately that it
// counts as alive.
func Lives(silent time.Duration) bool { return silent <= silentMost }

// wrong says why the others could not rely on it, "" if they could.
func (v Voter) wrong() string {
	switch {
	case !Lives(v.Silent):
		return v.Name + " does not answer"
	case v.Behind > behindMost:
		return fmt.Sprintf("%s is %d entries behind", v.Name, v.Behind)
	}
	return ""
}

// Safety is what may be lost.
type Safety struct {
	CanLose int      // voters, whichever they are, beyond those lost already
	Able    int      // voters that answer and keep up
	Need    int      // a majority of all
	Reasons []string // why the peer asked about may not be stopped; none: it may
}

// Judge says what a cluster with these voters can lose, and whether the server with
// this ID may be stopped: a majority must be left that answers and keeps up, and in
// it a voter that would lead. A server without a vote may always be stopped.
func Judge(voters []Voter, id string) Safety {
	all, rest := census(voters, ""), census(voters, id)
	s := Safety{Able: all.able, Need: len(voters)/2 + 1}
	s.CanLose = max(min(all.able-s.Need, all.willing-1), 0)
	if rest.able < s.Need {
		s.Reasons = append(s.Reasons,
			fmt.Sprintf("of %d voters %d would be left and %d are needed%s", len(voters), rest.able, s.Need,
				because(rest.wrong)))
	}
	if rest.willing == 0 && rest.able > 0 {
		s.Reasons = append(s.Reasons, "none of them would lead"+because(rest.refusals))
	}
	return s
}

// counts are those of some voters.
type counts struct {
	able, willing   int // those to rely on; of these, those that would lead
	wrong, refusals []string
}

func census(voters []Voter, without string) (c counts) {
	for _, v := range voters {
		if v.ID == without {
			continue
		}
		if why := v.wrong(); why != "" {
			c.wrong = append(c.wrong, why)
			continue
		}
		c.able++
		if v.Refuses == "" {
			c.willing++
		} else {
			c.refusals = append(c.refusals, fmt.Sprintf("%s would not (%s)", v.Name, v.Refuses))
		}
	}
	return c
}

func because(why []string) string {
	if len(why) == 0 {
		return ""
	}
	return ": " + strings.Join(why, ", ")
}

// Sentence is the verdict in words about the peer with this name.
func (s Safety) Sentence(name string) string {
	if len(s.Reasons) == 0 {
		return fmt.Sprintf("can lose %d more; safe to stop %s", s.CanLose, name)
	}
	return fmt.Sprintf("not safe to stop %s: %s", name, strings.Join(s.Reasons, "; "))
}
