package pxe

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// Boot is what iPXE starts.
type Boot struct {
	Callback  string // URL to which the ramdisk sends what it found
	Kernel    string // URL, or a name in the TFTP root
	Ramdisk   string // likewise
	Arguments string // further words for the kernel
}

// bootTries bounds how often iPXE tries to fetch what it boots, 5 s apart. Then
// the machine starts over: the host that answered it may be gone, and another one
// answers now.
const bootTries = 4

// Script is the iPXE script, signed (see Sign). It refuses words that iPXE would
// take for its own.
func (b Boot) Script() (string, error) {
	u, err := url.Parse(b.Callback)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("invalid callback URL %q: want http://HOST:PORT/v1/continue", b.Callback)
	}
	for _, word := range []string{b.Callback, b.Kernel, b.Ramdisk} {
		if word == "" || strings.ContainsAny(word, " \t\r\n$#|&") {
			return "", fmt.Errorf("%q cannot stand in an iPXE script: no blanks, $, #, | and &", word)
		}
	}
	if strings.ContainsAny(b.Arguments, "\r\n#|&") {
		return "", errors.New("kernel arguments cannot hold line breaks, #, | and & in an iPXE script")
	}
	words := []string{b.Kernel, "initrd=ramdisk", "ipa-inspection-callback-url=" + b.Callback, "BOOTIF=${mac}", "nofb",
		"nomodeset", "systemd.journald.forward_to_console=yes"}
	if b.Arguments != "" {
		words = append(words, b.Arguments)
	}
	return Sign(fmt.Sprintf(`#!ipxe
# The inspection ramdisk: it inspects the machine and sends the result to the
# floating IP, which the leading peer has.
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

// Callback is the URL of the API on an address; with TLS the ramdisk must trust
// the API's certificate.
func Callback(address netip.Addr, port uint16, tls bool) string {
	scheme := "http"
	if tls {
		scheme = "https"
	}
	return scheme + "://" + netip.AddrPortFrom(address, port).String() + "/v1/continue"
}
