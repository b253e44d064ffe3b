package fencing

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

func TestTokenInJSONIsADecimalString(t *testing.T) {
	for _, token := range []Token{0, 1, 1 << 53, math.MaxUint64} {
		text, err := json.Marshal(map[string]Token{"token": token})
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"token":"` + token.String() + `"}`; string(text) != want {
			t.Errorf("JSON of %d is %s, want %s", uint64(token), text, want)
		}
		var back map[string]Token
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if back["token"] != token {
			t.Errorf("read back %d, want %d", back["token"], token)
		}
	}
}

func TestTokenInCBORIsAnInteger(t *testing.T) {
	data, err := cbor.Marshal(Token(23))
	if err != nil {
		t.Fatal(err)
	}
	if len(data) != 1 || data[0] != 23 {
		t.Errorf("CBOR of 23 is %x, want 17", data)
	}
	var back Token
	if err := cbor.Unmarshal(data, &back); err != nil || back != 23 {
		t.Errorf("read back %v, %v", back, err)
	}
}

func TestParseTokenTakesOneFormOnly(t *testing.T) {
	for _, bad := range []string{"", "-1", "+1", "01", " 1", "1 ", "0x1", "1e3", "1_0", "18446744073709551616"} {
		if token, err := ParseToken(bad); err == nil {
			t.Errorf("%q was read as %d", bad, token)
		}
	}
	if token, err := ParseToken("18446744073709551615"); err != nil || token != math.MaxUint64 {
		t.Errorf("greatest token: %d, %v", token, err)
	}
}

func TestAtAddsTheBase(t *testing.T) {
	if got := At(1<<32, 7); got != 1<<32+7 {
		t.Errorf("At(2^32, 7) = %d", got)
	}
	if !At(0, 0).IsZero() || At(0, 1).IsZero() {
		t.Error("only the zero token is none")
	}
}
