package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rule is what a value may be. The zero rule allows everything of the type.
type rule struct {
	text  string           // in words
	check func(any) *fault // nil when the value is allowed

	words      []string // every value there is; nil: there are too many
	interfaces bool     // the value is a network interface, or several
}

func (r rule) checkValue(value any) *fault {
	if r.check == nil {
		return nil
	}
	return r.check(value)
}

// longest bounds every duration that has no tighter bound: sums of a few such
// stay far from the end of time.Duration.
const longest = 10 * 365 * 24 * time.Hour

// maxText bounds every text value, in bytes.
const maxText = 4096

func between(lo, hi time.Duration) rule {
	text := formatDuration(lo) + " to " + formatDuration(hi)
	return rule{text: text, check: func(v any) *fault {
		if d := v.(time.Duration); d < lo || d > hi {
			return &fault{formatDuration(d) + " is out of bounds", "allowed is " + text}
		}
		return nil
	}}
}

func positive() rule {
	r := upTo(longest)
	r.text = "more than 0s"
	return r
}

// upTo is positive with a bound of its own.
func upTo(hi time.Duration) rule {
	return rule{text: "more than 0s, at most " + formatDuration(hi), check: func(v any) *fault {
		switch d := v.(time.Duration); {
		case d <= 0:
			return &fault{formatDuration(d) + " is not allowed", "write a duration of more than 0s"}
		case d > hi:
			return &fault{formatDuration(d) + " is too long", "at most " + formatDuration(hi)}
		}
		return nil
	}}
}

func notNegative() rule {
	r := between(0, longest)
	r.text = "0s or more"
	return r
}

func number(lo, hi int) rule {
	text := fmt.Sprintf("%d to %d", lo, hi)
	return rule{text: text, check: func(v any) *fault {
		if n := v.(int); n < lo || n > hi {
			return &fault{fmt.Sprintf("%d is out of bounds", n), "allowed is " + text}
		}
		return nil
	}}
}

func oneOf(words ...string) rule {
	shown := make([]string, len(words))
	for i, w := range words {
		if shown[i] = w; w == "" {
			shown[i] = `""`
		}
	}
	text := strings.Join(shown, ", ")
	return rule{words: words, text: text, check: func(v any) *fault {
		if slices.Contains(words, v.(string)) {
			return nil
		}
		f := &fault{fmt.Sprintf("%q is not known", v), "one of " + text}
		if near := Nearest(v.(string), words); near != "" {
			f.do = fmt.Sprintf("did you mean %q? One of %s", near, text)
		}
		return f
	}}
}

// plain allows any text of one line and bounded length.
func plain(v any) *fault {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case Secret:
		text = string(v)
	}
	if len(text) > maxText {
		return &fault{fmt.Sprintf("is %d bytes long", len(text)), fmt.Sprintf("at most %d", maxText)}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return &fault{"holds a control character", "write one line of text"}
	}
	return nil
}

func anyText() rule { return rule{check: plain} }

// orEmpty allows "" besides what r allows.
func orEmpty(r rule) rule {
	return rule{words: r.words, interfaces: r.interfaces, text: r.text + ", or empty", check: func(v any) *fault {
		if v.(string) == "" {
			return nil
		}
		return r.check(v)
	}}
}

// alphanumeric are the letters and digits of ASCII.
const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// maxHostName is as long as Linux lets the name of a host be, in bytes.
const maxHostName = 64

// isName accepts 1 to most bytes, all of them letters, and none of ends first or last.
func isName(text, letters, ends string, most int) bool {
	return text != "" && len(text) <= most && strings.Trim(text, letters) == "" && strings.Trim(text, ends) == text
}

// form is the rule of texts that accepts takes; of any other it says after the text what it is not, and what to do.
func form(text string, accepts func(string) bool, not, do string) rule {
	return rule{text: text, check: func(v any) *fault {
		if value := v.(string); !accepts(value) {
			return &fault{fmt.Sprintf("%.80q %s", value, not), do}
		}
		return nil
	}}
}

// ValidHostName reports whether a peer may have a name. It keeps to what is a name
// in DNS, in a certificate and in gossip, and is the only place of that rule: what
// the configuration takes no member of a cluster refuses.
func ValidHostName(name string) bool { return isName(name, alphanumeric+"._-", "._-", maxHostName) }

// HostNameForm says what ValidHostName wants.
const HostNameForm = "1 to 64 letters, digits, '.', '_' or '-', a letter or digit first and last"

func hostName() rule {
	return form("1 to 64 letters, digits, '.', '_', '-'", ValidHostName, "is not a name", "write "+HostNameForm)
}

// listenAddress is a port with or without an address of this host.
func listenAddress() rule {
	return rule{text: "[ADDRESS]:PORT", check: func(v any) *fault {
		host, _, err := splitAddress(v.(string))
		if err == nil && host != "" && host != "localhost" {
			_, err = netip.ParseAddr(host)
		}
		if err != nil {
			return &fault{fmt.Sprintf("%q is not an address to listen on", v),
				`write ":PORT" for all addresses of this host, or "ADDRESS:PORT"`}
		}
		return nil
	}}
}

// offOr accepts ListenOff, nothing, and what another rule does.
func offOr(r rule) rule {
	return rule{text: r.text + ", or " + ListenOff, check: func(v any) *fault {
		if v == "" || v == ListenOff {
			return nil
		}
		return r.check(v)
	}}
}

// advertiseAddress is what others dial, so it must name one host.
func advertiseAddress() rule {
	return rule{text: "HOST:PORT", check: func(v any) *fault {
		host, port, err := splitAddress(v.(string))
		if err != nil || host == "" || port == 0 {
			return &fault{fmt.Sprintf("%q is not an address that others can reach", v), `write "HOST:PORT"`}
		}
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
			return &fault{fmt.Sprintf("%q is every address and none", v),
				"write the address at which the other peers reach this one"}
		}
		return nil
	}}
}

func splitAddress(text string) (host string, port uint64, err error) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, err
	}
	if strings.ContainsAny(host, " \t/@") {
		return "", 0, fmt.Errorf("host %q", host)
	}
	port, err = strconv.ParseUint(digits, 10, 16)
	return host, port, err
}

func webURL() rule {
	return rule{text: "URL with http or https", check: func(v any) *fault {
		u, err := url.Parse(v.(string))
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			// not quoted: it may hold a password
			return &fault{"is not the URL of a service", "write it as in http://127.0.0.1:6385"}
		case u.User != nil:
			return &fault{"holds a user name or password", "write them under username and password"}
		case u.RawQuery != "" || u.Fragment != "":
			return &fault{"ends in a query or fragment", "write the URL without what follows ? or #"}
		}
		return nil
	}}
}

func absolutePath(longestPath int) rule {
	return rule{text: "absolute path", check: func(v any) *fault {
		path := v.(string)
		switch {
		case !filepath.IsAbs(path):
			return &fault{"is not an absolute path", "begin it with /"} // not quoted: it may be the password or key itself
		case len(path) > longestPath:
			return &fault{fmt.Sprintf("the path is %d bytes long", len(path)), fmt.Sprintf("at most %d", longestPath)}
		}
		return plain(path)
	}}
}

// interfaceName follows what Linux allows: IFNAMSIZ is 16 with the final zero.
func interfaceName() rule {
	r := form("name of a network interface", func(name string) bool {
		return name != "" && len(name) <= 15 && name != "." && name != ".." &&
			!strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == ':' || r <= ' ' || r == 0x7f })
	}, "cannot be a network interface", "write 1 to 15 characters without blanks, '/' and ':'")
	r.interfaces = true
	return r
}

func floatingAddress() rule {
	return rule{text: "IPv4 or IPv6 address", check: func(v any) *fault {
		_, err := FloatingAddress(v.(string))
		switch {
		case errors.Is(err, errNotIP):
			return &fault{err.Error(), "write it without a mask, as in 192.0.2.10"}
		case err != nil:
			return &fault{err.Error(), "write a unicast address of the provisioning network"}
		}
		return nil
	}}
}

var errNotIP = errors.New("not an IP address")

// FloatingAddress reads an address that can be carried from host to host. It is the only
// place of that rule. Whether an address is the network's or the broadcast one depends on
// the subnets of the host: see doctor.FloatingProblems.
func FloatingAddress(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return ip, fmt.Errorf("%.80q is %w", text, errNotIP)
	}
	ip = ip.Unmap()
	thisNetwork := ip.Is4() && ip.As4()[0] == 0
	if ip.Zone() != "" || !ip.IsGlobalUnicast() || thisNetwork {
		return ip, fmt.Errorf("%.80q cannot be carried from host to host", text)
	}
	return ip, nil
}

// maxList bounds a list, in items.
const maxList = 64

// names is a list of identifiers, none twice.
func names() rule {
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789_"
	return listOf("list of names, none twice", func(name string) *fault {
		if !isName(name, allowed, "", 64) {
			return &fault{fmt.Sprintf("%.80q is not a name", name), "names are small letters, digits and '_'"}
		}
		return nil
	})
}
