package api

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// rootOf returns the URL under which the sender of a request reaches the API,
// without a slash at the end: Ironic goes on with the links it is given, so
// they lead where it came from. The X-Forwarded headers of a proxy that was named
// count, as far as it wrote them last (onlyOfProxies); what is no host, port or path in them
// is passed over. The result is safe inside a JSON string.
func rootOf(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if proto := strings.ToLower(lastHop(r.Header, "X-Forwarded-Proto")); proto == "http" || proto == "https" {
		scheme = proto
	}
	return scheme + "://" + hostOf(r, scheme) + prefixOf(r)
}

// onlyOfProxies removes what a caller that is no proxy says of where the API is: the answer
// would repeat it, and a cache on the way give it to others.
func onlyOfProxies(r *http.Request, proxies []netip.Prefix) {
	if within(proxies, parseAddress(r.RemoteAddr)) {
		return
	}
	for _, part := range []string{"Proto", "Host", "Port", "Prefix"} {
		delete(r.Header, "X-Forwarded-"+part)
	}
}

// hostOf returns host and port, the latter unless the scheme implies it.
func hostOf(r *http.Request, scheme string) string {
	host := r.Host
	if forwarded := lastHop(r.Header, "X-Forwarded-Host"); isHost(forwarded) {
		host = forwarded
	}
	if !isHost(host) { // it is named by where the request came in
		host = "localhost"
		if address, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && isHost(address.String()) {
			host = address.String()
		}
	}
	if port := lastHop(r.Header, "X-Forwarded-Port"); isPort(port) {
		if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
			host = host[:colon] // without the port that it has
		}
		host += ":" + port
	}
	if scheme == "http" {
		return strings.TrimSuffix(host, ":80")
	}
	return strings.TrimSuffix(host, ":443")
}

func prefixOf(r *http.Request) string {
	prefix := strings.Trim(lastHop(r.Header, "X-Forwarded-Prefix"), "/")
	if prefix == "" || !consistsOf(prefix, func(b byte) bool { return isNameByte(b) || b == '/' }) {
		return ""
	}
	return "/" + prefix
}

// lastHop returns what the nearest proxy put into a header, "" for nothing. key
// is in canonical form.
func lastHop(h http.Header, key string) string {
	values := h[key]
	if len(values) == 0 {
		return ""
	}
	last := values[len(values)-1]
	return strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
}

const maxHost = 255 + len(":65535")

func isHost(s string) bool {
	return s != "" && len(s) <= maxHost &&
		consistsOf(s, func(b byte) bool { return isNameByte(b) || b == ':' || b == '[' || b == ']' })
}

func isPort(s string) bool {
	return s != "" && len(s) <= len("65535") && consistsOf(s, func(b byte) bool { return '0' <= b && b <= '9' })
}

// isNameByte accepts what URLs never encode: letters, digits and -._~
func isNameByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '.' || b == '_' ||
		b == '~'
}

// isVisible accepts what a header can carry and IDs and tokens consist of.
func isVisible(b byte) bool { return '!' <= b && b <= '~' }

func consistsOf(s string, ok func(byte) bool) bool {
	for n := range len(s) {
		if !ok(s[n]) {
			return false
		}
	}
	return true
}
