package pxe

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Boot is what iPXE starts.
type Boot struct {
	// Callback is the URL to which the ramdisk sends what it found. It may be several with
	// commas between, which ironic-python-agent 9.9 and later takes: each is called where no
	// connection to the one before could be made, or it broke.
	Callback  string
	Kernel    string // URL, or a name in the TFTP root
	Ramdisk   string // likewise
	Arguments string // further words for the kernel
}

// bootTries bounds how often iPXE tries to fetch what it boots, 5 s apart. Then
// the machine starts over: the host that answered it may be gone, and another one
// answers now.
const bootTries = 4

// By these words of the kernel's ReadScript finds what was said by hand.
const (
	callbackArgument = "ipa-inspection-callback-url="
	lastOwnArgument  = "systemd.journald.forward_to_console=yes" // the operator's follow
)

// Script is the iPXE script, signed (see Sign). It refuses words that iPXE would
// take for its own.
func (b Boot) Script() (string, error) {
	if err := checkCallbacks(b.Callback); err != nil {
		return "", err
	}
	for _, word := range []string{b.Callback, b.Kernel, b.Ramdisk} {
		if word == "" || strings.ContainsAny(word, " \t\r\n$#|&") {
			return "", fmt.Errorf("%q cannot stand in an iPXE script: no blanks, $, #, | and &", word)
		}
	}
	if strings.ContainsAny(b.Arguments, "\r\n#|&") {
		return "", errors.New("kernel arguments cannot hold line breaks, #, | and & in an iPXE script")
	}
	words := []string{b.Kernel, "initrd=ramdisk", callbackArgument + b.Callback, "BOOTIF=${mac}", "nofb", "nomodeset",
		lastOwnArgument}
	if b.Arguments != "" {
		words = append(words, b.Arguments)
	}
	return Sign(fmt.Sprintf(`#!ipxe
# The inspection ramdisk: it inspects the machine and sends the result to the
# first of these URLs that lets it connect.
set tries:int32 0
:again
imgfree
kernel --timeout 30000 %s || goto failed
initrd --timeout 30000 --name ramdisk %s || goto failed
boot || goto failed
:failed
inc tries
echo Try ${tries} of %d failed.
sleep 5
iseq ${tries} %d || goto again
# The host that answered may be gone; another one answers after a reboot.
reboot
`, strings.Join(words, " "), b.Ramdisk, bootTries, bootTries)), nil
}

// maxCallbacks bounds a list of URLs: a kernel's command line has room for 2 KiB.
const maxCallbacks = 16

// checkCallbacks refuses a list of URLs of which the ramdisk would not call each.
func checkCallbacks(list string) error {
	urls := strings.Split(list, ",")
	if len(urls) > maxCallbacks {
		return fmt.Errorf("%d callback URLs: at most %d", len(urls), maxCallbacks)
	}
	for i, text := range urls {
		u, err := url.Parse(text)
		if err != nil || !callable(u) || strings.ContainsFunc(text, func(c rune) bool {
			return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"'\\`;<>{}^", c)
		}) {
			return fmt.Errorf("invalid callback URL %q: want http://HOST:PORT/v1/continue", text)
		}
		if slices.Contains(urls[:i], text) {
			return fmt.Errorf("callback URL %q is there twice", text)
		}
	}
	return nil
}

// callable reports whether a URL names a server and a path, and nothing that a ramdisk would
// show to others.
func callable(u *url.URL) bool {
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	return err == nil && port > 0 && !strings.HasSuffix(u.Host, ":") && u.Hostname() != "" && u.User == nil &&
		(u.Scheme == "http" || u.Scheme == "https") && strings.HasPrefix(u.Path, "/")
}

// Callback is the URL of a path on a host; with TLS the ramdisk must trust the API's
// certificate.
func Callback(host string, port uint16, tls bool, path string) string {
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(int(port))), Path: path}
	if tls {
		u.Scheme = "https"
	}
	return u.String()
}
