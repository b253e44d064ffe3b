package nodesync

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
)

// The guard against a short list (docs/design.md#sync): one that lacks more than both of
// these deletes nothing until an operator confirms it, or it has said the same for SuspectFor.
const (
	SuspectShare = 5  // one in five of what is known
	SuspectCount = 10 // nodes, or ports

	// SuspectFor is how long such a list has to say the same before it is believed.
	SuspectFor = 24 * time.Hour
)

// WhyDoubted says why a list of nodes, or of ports, should not be believed, "" if it may be.
func WhyDoubted(things string, missing, known, listed int) string {
	switch {
	case listed == 0:
		return fmt.Sprintf("Ironic lists no %s at all, %d are known here", things, known)
	case missing > SuspectCount && missing*SuspectShare > known:
		return fmt.Sprintf("Ironic's list lacks %d of the %d %s that are known here", missing, known, things)
	default:
		return ""
	}
}

// Digest names what is missing, in order.
func Digest(missing []string) string {
	sum := sha256.Sum256([]byte(strings.Join(missing, "\n")))
	return hex.EncodeToString(sum[:8])
}

// Settles reports whether a doubtful list may be acted on at a time, after this suspicion:
// it was confirmed, or has said the same for long enough.
func (s Suspicion) Settles(now Suspicion, at entry.Time) bool {
	return !s.IsZero() && s.Digest == now.Digest && (s.Confirmed || at.Sub(s.Since) >= SuspectFor)
}
