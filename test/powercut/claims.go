package powercut

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Claims are what was acknowledged, by a name of the test's, as numbers that only rise.
type Claims map[string]uint64

// made raises a claim.
func (c Claims) made(name string, value uint64) { c[name] = max(c[name], value) }

// Mark begins what a recorded program tells of itself, and the request IDs of the test: a
// request is answered under its own, so that the answer to one is a claim.
const Mark = "cut/"

// Claim returns a claim as a line of output, or as a request ID.
func Claim(name string, value uint64) string { return fmt.Sprintf("%s%s=%d", Mark, name, value) }

var (
	claimed = regexp.MustCompile(Mark + `([a-zA-Z0-9/.]+)=(\d+)`)
	told    = regexp.MustCompile(`(?s)"role": ?"([a-z]+)".*"term": ?(\d+)`)
)

// hear adds what a process tells someone when a call begins. What it says of its term is a
// claim of its own name.
func (c Claims) hear(m moment) error {
	if m.end || m.name != "write" {
		return nil
	}
	_, path, err := m.descriptor(0)
	if err != nil || !strings.HasPrefix(path, "socket:") && !strings.HasPrefix(path, "pipe:") {
		return err
	}
	text, err := m.quoted(1)
	if err != nil || !strings.HasPrefix(text, "HTTP/1.1 2") && !strings.HasPrefix(text, Mark) {
		return err
	}
	for _, found := range claimed.FindAllStringSubmatch(text, -1) {
		value, err := strconv.ParseUint(found[2], 10, 64)
		if err != nil {
			return err
		}
		c.made(found[1], value)
	}
	if found := told.FindStringSubmatch(text); found != nil {
		term, err := strconv.ParseUint(found[2], 10, 64)
		if err != nil {
			return err
		}
		log := fmt.Sprintf("%s/%d", m.trace, c["founded/"+m.trace]) // a founding begins another
		c.made("term/"+log, term)
		if found[1] == "leader" {
			c.made("vote/"+log, term)
		}
	}
	return nil
}

// below returns the claims whose names begin with a word, by the rest of the name.
func (c Claims) below(word string) map[string]uint64 {
	out := make(map[string]uint64)
	for name, value := range c { // order-free: a map
		if rest, ok := strings.CutPrefix(name, word+"/"); ok {
			out[rest] = value
		}
	}
	return out
}

func sorted[V any](of map[string]V) (values []V) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		values = append(values, of[key])
	}
	return values
}
