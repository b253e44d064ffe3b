package api

import (
	"net/http"
	"strconv"
	"strings"
)

// The versions of the API that are answered. They gate nothing; a client that
// asks for another one is told so (docs/contract.md#versions).
const (
	minimumVersion = "1.0"
	maximumVersion = "1.18"
	maximumMinor   = 18

	versionHeader = "X-Openstack-Ironic-Inspector-Api-Version" // as net/http spells what it reads

	maxVersionText = 16 // bytes; more is no version
)

// Values of headers, made once and never changed.
var (
	minimumValue = []string{minimumVersion}
	maximumValue = []string{maximumVersion}
)

// checkVersion refuses a version that is none or not answered. A request
// without the header gets the newest.
func checkVersion(h http.Header) error {
	values, there := h[versionHeader]
	if !there {
		return nil
	}
	text := strings.Join(values, ",")
	if strings.EqualFold(text, "latest") {
		return nil
	}
	major, minor, ok := parseVersion(text)
	if !ok {
		return refuse(http.StatusBadRequest, "Malformed API version: expected string in form of X.Y or latest")
	}
	if major != 1 || minor < 0 || minor > maximumMinor {
		return refuse(http.StatusNotAcceptable, "Unsupported API version %d.%d, supported range is %s to %s", major, minor,
			minimumVersion, maximumVersion)
	}
	return nil
}

func parseVersion(text string) (major, minor int, ok bool) {
	before, after, found := strings.Cut(text, ".")
	if !found || len(text) > maxVersionText {
		return 0, 0, false
	}
	major, okMajor := parseNumber(before)
	minor, okMinor := parseNumber(after)
	return major, minor, okMajor && okMinor
}

// parseNumber reads digits with a minus at most.
func parseNumber(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && !strings.HasPrefix(text, "+")
}
