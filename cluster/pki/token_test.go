package pki_test

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/cluster/pki"
)

func newToken(t *testing.T) pki.JoinToken {
	t.Helper()
	token, err := pki.NewJoinToken([32]byte{1, 2, 3}, time.Unix(1_800_000_000, 999), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestJoinTokenReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var hash [32]byte
		copy(hash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		drawn := rapid.SliceOfN(rapid.Byte(), 24, 24).Draw(t, "random")
		expires := time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "expires"), 5)
		token, err := pki.NewJoinToken(hash, expires, bytes.NewReader(drawn))
		if err != nil {
			t.Fatal(err)
		}
		got, err := pki.ParseJoinToken(" \t" + token.String() + "\n")
		if err != nil || got != token || got.SecretHash() != token.SecretHash() {
			t.Fatalf("%v reads back as %v: %v", token, got, err)
		}
	})
}

// TestJoinTokenRefusals spoils a token in the ways people do. No message may
// repeat the secret, and each must say what to look at.
func TestJoinTokenRefusals(t *testing.T) {
	token := newToken(t)
	text := token.String()
	parts := strings.Split(text, ".")
	swap := func(i int, with string) string {
		spoiled := append([]string(nil), parts...)
		spoiled[i] = with
		return strings.Join(spoiled, ".")
	}
	tests := map[string]struct{ text, want string }{
		"nothing":              {"  ", "is empty"},
		"a word":               {"hello", "no join token"},
		"a kubeadm token":      {"abcdef.0123456789abcdef", "no join token"},
		"first word cut":       {"triv", "cut off"},
		"cut in the secret":    {text[:70], "cut off"},
		"without its checksum": {strings.Join(parts[:5], "."), "cut off"},
		"last letter lost":     {text[:len(text)-1], "cut off"},
		"a later kind":         {swap(0, "trivet2"), "use the same version"},
		"twice":                {text + "." + text, "more than the token was copied"},
		"a whole page":         {strings.Repeat(text, 10), "more than the token was copied"},
		"hash too short":       {swap(1, parts[1][1:]), "CA hash is 42 characters long, want 43"},
		"hash not base64":      {swap(1, "!"+parts[1][1:]), "CA hash is not base64url"},
		"secret not base64":    {swap(3, "!"+parts[3][1:]), "secret is not base64url"},
		"no ID":                {swap(2, ""), "ID is empty"},
		"blank in the ID":      {swap(2, "a b"), "more than a join token"},
		"a log with a warning": {"trivet: warning: br-pxe is not on this host\n" + text, "more than a join token"},
		"expiry of letters":    {swap(4, "soon"), "expiry is not a number"},
		"expiry with a plus":   {swap(4, "+"+parts[4]), "expiry is not a number"},
		"a later expiry":       {swap(4, "1900000000"), "checksum is wrong"},
		"another ID":           {swap(2, "aaaaaaaa"), "checksum is wrong"},
		"longer checksum":      {text + "x", "checksum is wrong"},
	}
	for name, test := range tests {
		_, err := pki.ParseJoinToken(test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), parts[3]) {
			t.Errorf("%s: the message holds the secret: %v", name, err)
		}
	}
}

// TestJoinTokenNoticesEverySlip changes, drops or doubles one character.
func TestJoinTokenNoticesEverySlip(t *testing.T) {
	token := newToken(t)
	text := token.String()
	for i := range text {
		for _, spoiled := range []string{
			text[:i] + text[i+1:],
			text[:i] + text[i:i+1] + text[i:],
			text[:i] + "Q" + text[i+1:],
		} {
			if got, err := pki.ParseJoinToken(spoiled); err == nil && got != token {
				t.Errorf("accepted %s for %s", spoiled, text)
			}
		}
	}
}

func TestSecretHash(t *testing.T) {
	token := newToken(t)
	hash := token.SecretHash()
	later := token
	later.Expires = time.Unix(0, 0)
	if later.SecretHash() != hash {
		t.Error("the hash depends on the expiry, which the cluster keeps itself")
	}
	for name, change := range map[string]func(*pki.JoinToken){
		"cluster": func(t *pki.JoinToken) { t.CAHash[0]++ },
		"ID":      func(t *pki.JoinToken) { t.ID += "a" },
		"secret":  func(t *pki.JoinToken) { t.Secret[15]++ },
	} {
		other := token
		change(&other)
		if other.SecretHash() == hash || pki.SameSecret(other.SecretHash(), hash) {
			t.Errorf("another %s has the same hash", name)
		}
	}
	if !pki.SameSecret(token.SecretHash(), hash) {
		t.Error("the same secret differs from itself")
	}
}

func TestTokensDiffer(t *testing.T) {
	a, b := newToken(t), newToken(t)
	if a.ID == b.ID || a.Secret == b.Secret {
		t.Errorf("%v and %v", a, b)
	}
	if _, err := pki.NewJoinToken([32]byte{}, time.Now(), bytes.NewReader(nil)); err == nil {
		t.Error("a token without randomness")
	}
}

// FuzzParseJoinToken: no panic, and one spelling for each token.
func FuzzParseJoinToken(f *testing.F) {
	f.Add("trivet1.AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.abcdefgh.AAAAAAAAAAAAAAAAAAAAAA.1800000000.AAAAAA")
	f.Add("trivet1.....")
	f.Add("trivet2.x")
	f.Add("")
	token, err := pki.NewJoinToken([32]byte{9}, time.Unix(1, 0), bytes.NewReader(make([]byte, 24)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token.String())
	f.Fuzz(func(t *testing.T, text string) {
		token, err := pki.ParseJoinToken(text)
		if err == nil && token.String() != strings.TrimSpace(text) {
			t.Fatalf("%q reads as %q", text, token)
		}
	})
}
