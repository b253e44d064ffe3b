package dnsmasq

import (
	"fmt"
	"strings"

	"github.com/trivet-ha/trivet/firewall"
)

const (
	// unknownFile is about machines without a file of their own.
	unknownFile = "unknown"
	// draft is what a file is called until it is whole: dnsmasq passes over
	// names that begin with a dot.
	draft = ".draft"

	// everybody matches any address of six bytes; dnsmasq prefers a line that
	// matches more closely.
	everybody = "*:*:*:*:*:*"
	ignored   = ",ignore"
	heading   = "# trivet: "
)

// maxText bounds a file of ours, in bytes.
const maxText = 128

// mark says which lists a MAC is on.
type mark struct{ allow, deny bool }

// marks are all there are: what a file may say.
func marks() [4]mark { return [...]mark{{}, {allow: true}, {deny: true}, {allow: true, deny: true}} }

func (m mark) String() string {
	switch {
	case m.allow && m.deny:
		return "allowed and denied"
	case m.allow:
		return "allowed"
	case m.deny:
		return "denied"
	}
	return "left"
}

// opens reports whether a machine with this mark gets an answer; the pass rule
// decides on those that no list names.
func (m mark) opens(pass bool) bool { return m.allow || !m.deny && pass }

// text is the content of a MAC's file.
func (m mark) text(mac string, pass bool) string {
	return heading + m.String() + "\n" + line(mac, m.opens(pass))
}

// unknownText is the content of the file for machines without one.
func unknownText(pass bool) string {
	return heading + "unknown machines\n" + line(everybody, pass)
}

func line(address string, open bool) string {
	if open {
		return address + "\n"
	}
	return address + ignored + "\n"
}

// parsePass reads the file of unknown machines.
func parsePass(text string) (pass bool, err error) {
	for _, pass := range []bool{false, true} {
		if text == unknownText(pass) {
			return pass, nil
		}
	}
	return false, changed(unknownFile)
}

// parseMark reads a MAC's file. It must say in both lines what we would write.
func parseMark(mac, text string, pass bool) (mark, error) {
	for _, m := range marks() {
		if text == m.text(mac, pass) {
			return m, nil
		}
	}
	return mark{}, changed(mac)
}

// changed is the error about a file of ours that says what we did not write.
func changed(name string) error {
	return fmt.Errorf("%w: the file %s is not as it was written", firewall.ErrForeign, name)
}

// passedOver reports whether dnsmasq does not look at a file for its name.
func passedOver(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") ||
		strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}
