package fsm

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds of what names a peer.
const (
	maxID      = 64
	maxBoot    = 64
	maxVersion = 1 << 20
	maxAddress = 260
)

// invalid is how a Validate method says no.
func invalid(format string, args ...any) error { return fmt.Errorf(format, args...) }

// within checks the length of a text in bytes.
func within(what, text string, least, most int) error {
	if len(text) < least || len(text) > most {
		return fmt.Errorf("%s has %d bytes, allowed are %d to %d", what, len(text), least, most)
	}
	return nil
}

// only checks that a text consists of the given class of characters.
func only(what, text string, allowed func(byte) bool) error {
	for i := range len(text) {
		if !allowed(text[i]) {
			return fmt.Errorf("%s %q has a character that is not allowed", what, text)
		}
	}
	return nil
}

func validBoot(peer, boot string, version int) error {
	if err := validID("server ID", peer); err != nil {
		return err
	}
	if version < 0 || version > maxVersion {
		return invalid("log version %d is out of range", version)
	}
	return within("boot ID", boot, 1, maxBoot)
}

// validID accepts what may stand in a certificate, a path and a URL.
func validID(what, id string) error {
	if err := within(what, id, 1, maxID); err != nil {
		return err
	}
	return only(what, id, func(b byte) bool {
		return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_' || b == '.'
	})
}

// validAddress accepts host:port and nothing. Whether the host exists is not
// for a state machine to ask.
func validAddress(address string) error {
	if address == "" {
		return nil
	}
	i := strings.LastIndexByte(address, ':')
	port, err := strconv.ParseUint(address[i+1:], 10, 16)
	if i < 0 || err != nil || port == 0 || len(address) > maxAddress || strings.ContainsAny(address, " /@") {
		return invalid("address %q is not host:port", address)
	}
	return nil
}
