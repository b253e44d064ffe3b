package pki

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// JoinToken lets one host, or several until it expires, join a cluster. The
// whole of it is a secret; the cluster stores only SecretHash.
type JoinToken struct {
	CAHash  [sha256.Size]byte // see HashCA; what the joiner trusts the server by
	ID      string            // names the token in lists and for revoking; no secret
	Secret  [16]byte          // what the cluster trusts the joiner by
	Expires time.Time         // whole seconds; for people. The cluster judges, by its own time, not the joiner
}

const (
	tokenPrefix   = "trivet1"
	tokenParts    = 6
	maxToken      = 256 // bytes of text
	tokenIDLength = 8   // characters; 40 bits, so that ids of one cluster do not collide
)

// base64url without padding, and strict: one spelling for each value.
func tokenBase64() *base64.Encoding { return base64.RawURLEncoding.Strict() }

// NewJoinToken draws a token for the cluster with the CA hash given.
func NewJoinToken(caHash [sha256.Size]byte, expires time.Time, random io.Reader) (JoinToken, error) {
	var drawn [tokenIDLength + 16]byte
	if _, err := io.ReadFull(random, drawn[:]); err != nil {
		return JoinToken{}, fmt.Errorf("draw join token: %w", err)
	}
	const alphabet = "abcdefghijkmnpqrstuvwxyz23456789" // 32 characters, none like another
	id := make([]byte, tokenIDLength)
	for i := range id {
		id[i] = alphabet[drawn[i]%byte(len(alphabet))]
	}
	return JoinToken{
		CAHash:  caHash,
		ID:      string(id),
		Secret:  [16]byte(drawn[tokenIDLength:]),
		Expires: time.Unix(expires.Unix(), 0).UTC(),
	}, nil
}

// String is the form that is copied or typed on the joining host, about 110
// characters without spaces:
//
//	trivet1.CA-HASH.ID.SECRET.EXPIRY.CHECKSUM
//
// The hash, the secret and the checksum are base64url; the expiry is Unix
// seconds; the checksum (CRC-32 of what stands before it) tells a slip of the
// hand from a token that the cluster refuses.
func (t JoinToken) String() string {
	b64 := tokenBase64()
	text := strings.Join([]string{
		tokenPrefix,
		b64.EncodeToString(t.CAHash[:]),
		t.ID,
		b64.EncodeToString(t.Secret[:]),
		strconv.FormatInt(t.Expires.Unix(), 10),
	}, ".")
	return text + "." + checksum(text)
}

// SecretHash is all that the cluster stores. It binds the secret to the token's
// ID and the cluster's CA.
func (t JoinToken) SecretHash() [sha256.Size]byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte("trivet join token 1"), t.CAHash[:], []byte(t.ID), t.Secret[:]} {
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(part)))
		h.Write(length[:]) // a hash never fails to write
		h.Write(part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// SameSecret compares a presented hash with a stored one without telling by
// its timing how much of it was right.
func SameSecret(presented, stored [sha256.Size]byte) bool {
	return subtle.ConstantTimeCompare(presented[:], stored[:]) == 1
}

// ParseJoinToken reads what String wrote; white space around it is ignored.
// Its errors say what happened to the text and never repeat the secret. It
// does not look at the expiry: the joiner's clock may be wrong.
func ParseJoinToken(text string) (JoinToken, error) {
	text = strings.TrimSpace(text)
	parts := strings.Split(text, ".")
	switch {
	case text == "":
		return JoinToken{}, errors.New("join token is empty")
	case strings.ContainsFunc(text, unicode.IsSpace):
		return JoinToken{}, fmt.Errorf("there is more than a join token: write the word alone that begins with %q",
			tokenPrefix+".")
	case len(text) > maxToken:
		return JoinToken{}, fmt.Errorf("join token is %d characters long, at most %d: more than the token was copied",
			len(text), maxToken)
	case strings.HasPrefix(tokenPrefix, parts[0]) && len(parts) == 1:
		return JoinToken{}, errors.New("join token is cut off: copy all of it")
	case strings.HasPrefix(parts[0], "trivet") && parts[0] != tokenPrefix:
		return JoinToken{}, fmt.Errorf(
			"join token is of kind %.16q, this binary knows %q: use the same version on both hosts", parts[0], tokenPrefix)
	case parts[0] != tokenPrefix:
		return JoinToken{}, fmt.Errorf("that is no join token: one begins with %q", tokenPrefix+".")
	case len(parts) < tokenParts:
		return JoinToken{}, fmt.Errorf("join token is cut off: %d of %d parts: copy all of it", len(parts), tokenParts)
	case len(parts) > tokenParts:
		return JoinToken{}, fmt.Errorf("join token has %d parts, want %d: more than the token was copied", len(parts),
			tokenParts)
	}
	return parseTokenParts(text, parts)
}

func parseTokenParts(text string, parts []string) (JoinToken, error) {
	var t JoinToken
	if err := decodeTokenPart(t.CAHash[:], "CA hash", parts[1]); err != nil {
		return JoinToken{}, err
	}
	if err := checkName("join token's ID", parts[2]); err != nil {
		return JoinToken{}, err
	}
	t.ID = parts[2]
	if err := decodeTokenPart(t.Secret[:], "secret", parts[3]); err != nil {
		return JoinToken{}, err
	}
	seconds, err := strconv.ParseInt(parts[4], 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != parts[4] {
		return JoinToken{}, errors.New("join token's expiry is not a number of seconds: a character was lost or changed")
	}
	t.Expires = time.Unix(seconds, 0).UTC()
	body := text[:len(text)-len(parts[5])-1]
	switch want := checksum(body); {
	case len(parts[5]) < len(want):
		return JoinToken{}, errors.New("join token is cut off: its checksum is too short: copy all of it")
	case parts[5] != want:
		return JoinToken{}, errors.New("join token's checksum is wrong: a character was lost or changed")
	}
	return t, nil
}

func decodeTokenPart(into []byte, what, text string) error {
	b64 := tokenBase64()
	if want := b64.EncodedLen(len(into)); len(text) != want {
		return fmt.Errorf("join token's %s is %d characters long, want %d: a character was lost or added", what, len(text),
			want)
	}
	decoded, err := b64.DecodeString(text)
	if err != nil { // the error is not wrapped: it would tell where in the secret
		return fmt.Errorf("join token's %s is not base64url: a character was changed", what)
	}
	copy(into, decoded)
	return nil
}

func checksum(text string) string {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE([]byte(text)))
	return tokenBase64().EncodeToString(sum[:])
}
