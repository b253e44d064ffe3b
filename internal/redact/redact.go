// Package redact hides secrets in texts that people see: support bundles, logs, dry runs
// and what Ironic repeats of a request.
package redact

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Redacted stands where a secret stood.
const Redacted = "(redacted)"

// shortestKnown is how many bytes a secret must have to be looked for by its
// value: a shorter one is a word that stands elsewhere, and hiding it there would
// tell what it is. Where a name says what it is it is hidden, however short.
const shortestKnown = 8

// keyLine is from how many bytes on a line of a secret is looked for by itself: of
// a key in PEM, those of its body.
const keyLine = 32

// named are names that, in any text, a secret follows.
const named = `password|passwd|passphrase|secret|token|authorization|community|private_?key|client-key-data|gossip_?key|ca_?key`

// secretName matches the name or path of an attribute whose value must not be shown: what
// Ironic's drivers call so, too.
var secretName = regexp.MustCompile(`(?i)` + named + `|pass|credential|private|_key`)

// NamesSecret reports whether an attribute of this name or path, as
// /driver_info/ipmi_password, holds a secret.
func NamesSecret(path string) bool { return secretName.MatchString(path) }

// Redactor hides secrets in text: those whose values it was given, in the forms in
// which programs write them, and text that looks like one. It may be used
// concurrently.
type Redactor struct {
	known  *strings.Replacer
	shapes []*regexp.Regexp
	named  *regexp.Regexp // name and separator, value
}

// New returns a Redactor that looks for the values known, too.
func New(known ...string) *Redactor {
	r := &Redactor{named: regexp.MustCompile(
		`(?i)((?:` + named + `)\\*['"]?[ \t]*[:=][ \t]*)` +
			`(\\+"[^"]*"|"(?:[^"\\]|\\.)*"|'[^'\n]*'|[^\s"',{}\[\]]+)`)}
	for _, pattern := range []string{
		`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`,
		`LS0tLS1CRUdJTi[A-Za-z0-9+/=]+`,                // a PEM block in base64, as kubeconfigs have it
		`trivet1\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+`, // a join token
		`(?i)\b(?:basic|bearer)[ \t]+[A-Za-z0-9+/=._~-]{16,}`,
		`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`, // a JWT
		`\bgAAAA[A-Za-z0-9_=-]{32,}`,                             // a token of Keystone
		`\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}`,                  // a password's hash
		`://[^/@\s":]*:[^/@\s"]+@`,                               // in a URL
	} {
		r.shapes = append(r.shapes, regexp.MustCompile(pattern))
	}
	var pairs []string
	for _, form := range forms(known) {
		pairs = append(pairs, form, Redacted)
	}
	r.known = strings.NewReplacer(pairs...)
	return r
}

// forms are the ways in which programs write these values, the longest first: of
// two that begin alike the longer one is hidden.
func forms(values []string) []string {
	var out []string
	for _, value := range values {
		for part := range strings.SplitSeq(value, "\n") {
			if part = strings.TrimSpace(part); len(part) >= keyLine && part != value && !strings.HasPrefix(part, "-----") {
				out = append(out, part)
			}
		}
		if len(value) < shortestKnown {
			continue
		}
		raw, quoted := []byte(value), strconv.Quote(value)
		out = append(out, value, strings.ToValidUTF8(value, "?"), strings.ToValidUTF8(value, "\uFFFD"),
			quoted[1:len(quoted)-1], url.QueryEscape(value), hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)),
			base64.RawStdEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw), fmt.Sprint(raw))
	}
	slices.SortStableFunc(out, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(out)
}

// Text returns text without secrets. Fencing tokens are numbers, and stay.
func (r *Redactor) Text(text string) string {
	text = strings.ToValidUTF8(r.known.Replace(text), "?")
	for _, shape := range r.shapes {
		text = shape.ReplaceAllLiteralString(text, Redacted)
	}
	return r.named.ReplaceAllStringFunc(text, func(found string) string {
		at := r.named.FindStringSubmatchIndex(found)
		name, value := found[:at[3]], found[at[4]:at[5]]
		if harmless(strings.ToLower(name), strings.Trim(value, `\"'`)) {
			return found
		}
		quote := value[:len(value)-len(strings.TrimLeft(value, `\`))] // of JSON within JSON
		switch strings.TrimLeft(value, `\`)[0] {
		case '"':
			quote += `"`
		case '\'':
			quote = `'`
		default:
			quote = ""
		}
		return name + quote + Redacted + quote
	})
}

// harmless reports whether what stands after a name is no secret.
func harmless(name, value string) bool {
	switch value {
	case "", Redacted, "null", "true", "false":
		return true
	}
	_, err := strconv.ParseUint(value, 10, 64)
	return err == nil && strings.HasPrefix(name, "token")
}
