package pxe

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// signature begins the last line of every text of this package.
const signature = "# trivet-sha256: "

// Sign appends a comment with the hash of the text, by which Check tells a file
// that was changed by hand. It proves nothing to an adversary.
func Sign(text string) string { return text + signature + digest(text) + "\n" }

// Check reports whether a file ends with the comment of Sign, and whether the
// text before it is as it was signed.
func Check(text string) (signed, intact bool) {
	at := strings.LastIndex(text, signature)
	if at < 0 || at > 0 && text[at-1] != '\n' {
		return false, false
	}
	return true, text[at:] == signature+digest(text[:at])+"\n"
}

func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
