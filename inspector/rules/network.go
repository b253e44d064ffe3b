package rules

import (
	"math/big"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/trivet-ha/trivet/inspector/document"
)

// noMask is what the original says of an address with a mask.
const noMask = "IPAddress() does not support netmasks or subnet prefixes! See documentation for details."

// insideNet holds when the field is an IP address in a network.
func insideNet(want *document.Value, _ *int) (check, error) {
	if want.Kind() != document.Text {
		return nil, invalidf("invalid value: expected a network as text, got %v", want.Kind())
	}
	text := want.Text()
	if strings.Count(text, "/") > 1 {
		return nil, invalidf("%s", noMask)
	}
	network, ok := parseNetwork(text)
	if !ok {
		return nil, invalidf("invalid value: invalid IPNetwork %s", document.Clip(text))
	}
	return func(found *document.Value) (bool, error) {
		address, err := parseAddress(found)
		return err == nil && network.Contains(address), err
	}, nil
}

// parseNetwork reads what netaddr takes for a network: with a length, a mask or
// nothing behind the slash, and with fewer than four numbers.
func parseNetwork(text string) (netip.Prefix, bool) {
	head, tail, masked := strings.Cut(text, "/")
	address, ok := plainAddress(strings.TrimSpace(head))
	if !ok {
		if address, ok = partialAddress(head); !ok {
			return netip.Prefix{}, false
		}
	}
	length := address.BitLen()
	if masked {
		if length, ok = maskLength(strings.TrimSpace(tail), address.BitLen()); !ok {
			return netip.Prefix{}, false
		}
	}
	return netip.PrefixFrom(address, length).Masked(), true
}

func plainAddress(text string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(text)
	return address, err == nil && address.Zone() == ""
}

// partialAddress reads "10" as 10.0.0.0.
func partialAddress(text string) (netip.Addr, bool) {
	parts := strings.Split(text, ".")
	var bytes [4]byte
	if len(parts) > len(bytes) {
		return netip.Addr{}, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(strings.TrimSpace(part), 10, 8)
		if err != nil {
			return netip.Addr{}, false
		}
		bytes[i] = byte(n)
	}
	return netip.AddrFrom4(bytes), true
}

// maskLength reads a length, a mask or an inverse mask.
func maskLength(text string, bits int) (int, bool) {
	if n, err := strconv.Atoi(text); err == nil {
		return n, 0 <= n && n <= bits
	}
	mask, ok := plainAddress(text)
	if !ok || mask.BitLen() != bits {
		return 0, false
	}
	bytes := mask.AsSlice()
	for range 2 { // as a mask, then as an inverse one
		if ones, size := net.IPMask(bytes).Size(); size > 0 {
			return ones, true
		}
		for i := range bytes {
			bytes[i] ^= 0xff
		}
	}
	return 0, false
}

// parseAddress reads what netaddr takes for an address: text, also as inet_aton
// reads it, or a number.
func parseAddress(v *document.Value) (netip.Addr, error) {
	switch v.Kind() {
	case document.Text:
		text := v.Text()
		if strings.Contains(text, "/") {
			return netip.Addr{}, document.Raise("ValueError", noMask)
		}
		if address, ok := plainAddress(text); ok {
			return address, nil
		}
		if address, ok := shortAddress(text); ok {
			return address, nil
		}
	case document.Int, document.Bool:
		n, err := v.Whole()
		if err != nil {
			return netip.Addr{}, err
		}
		if address, ok := numberAddress(n); ok {
			return address, nil
		}
	}
	shown, err := document.Repr(v)
	if err != nil {
		return netip.Addr{}, err
	}
	return netip.Addr{}, document.Raise("AddrFormatError", "failed to detect a valid IP address from %s",
		document.Clip(shown))
}

// shortAddress reads one to four numbers, decimal, octal or hexadecimal, the
// last of which fills what is left.
func shortAddress(text string) (netip.Addr, bool) {
	parts := strings.Split(text, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if part == "" || part[0] < '0' || part[0] > '9' ||
			strings.ContainsAny(part, "_oObB") && !strings.HasPrefix(strings.ToLower(part), "0x") {
			return netip.Addr{}, false
		}
		n, err := strconv.ParseUint(part, 0, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		sum = sum<<bits | n
	}
	return numberAddress(new(big.Int).SetUint64(sum))
}

// numberAddress makes an address of a number: IPv4 as long as it fits.
func numberAddress(n *big.Int) (netip.Addr, bool) {
	if n.Sign() < 0 || n.BitLen() > 128 {
		return netip.Addr{}, false
	}
	var bytes [16]byte
	n.FillBytes(bytes[:])
	if n.BitLen() <= 32 {
		return netip.AddrFrom4([4]byte(bytes[12:])), true
	}
	return netip.AddrFrom16(bytes), true
}
