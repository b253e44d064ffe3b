package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// markLabel separates these marks from other uses of the same secret.
const markLabel = "trivet configuration 1\x00"

// Marks returns a short mark of the value of every option that has to be the
// same on all peers: key → mark. Peers that have equal values and the same
// secret have equal marks. A mark does not reveal its value without the secret, not
// even to a reader who tries all likely values. 64 bits let two values of one key
// have the same mark once in 2^64 pairs.
func (c Config) Marks(secret []byte) map[string]uint64 {
	keyed := sha256.Sum256(append([]byte(markLabel), secret...))
	marks := make(map[string]uint64)
	for _, o := range table {
		if o.AliasOf != "" || o.Extent != AllHosts {
			continue
		}
		mac := hmac.New(sha256.New, keyed[:])
		mac.Write([]byte(o.Key + "\x00" + o.exact(&c)))
		marks[o.Key] = binary.BigEndian.Uint64(mac.Sum(nil))
	}
	return marks
}
