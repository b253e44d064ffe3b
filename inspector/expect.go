package inspector

import (
	"bytes"

	"github.com/trivet-ha/trivet/fsm"
)

// maxSeen is how many MACs at the beginning of a document are looked up.
const maxSeen = 32

// macLength is that of a MAC's text between its quotes.
const macLength = len("00:00:00:00:00:00")

// Expects returns the node under introspection that the beginning of a ramdisk's document
// names by a MAC, as this peer has the state. It decides who waits for whom and nothing
// else: whose document it is, the whole document says.
func (s *Service) Expects(beginning []byte) (node string, ok bool) {
	v := s.o.Log.View()
	if !v.Introspecting() {
		return "", false
	}
	return expectedOf(v, beginning)
}

func expectedOf(v fsm.View, beginning []byte) (node string, ok bool) {
	for range maxSeen {
		mac, rest, found := nextMAC(beginning)
		if !found {
			return "", false
		}
		beginning = rest
		if nodes := v.NodesByMAC(mac); len(nodes) == 1 { // one of several would share with the others
			return nodes[0], true
		}
	}
	return "", false
}

// nextMAC finds a string that is a MAC in a piece of JSON.
func nextMAC(text []byte) (mac string, rest []byte, ok bool) {
	for {
		at := bytes.IndexByte(text, '"')
		if at < 0 || len(text) < at+macLength+2 {
			return "", nil, false
		}
		text = text[at+1:]
		if text[macLength] != '"' || text[2] != ':' {
			continue
		}
		if mac, ok := CanonicalMAC(string(text[:macLength])); ok {
			return mac, text[macLength+1:], true
		}
	}
}
