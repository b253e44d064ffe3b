package identify

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trivet-ha/trivet/inspector/document"
)

const (
	resolveTimeout  = 3 * time.Second // a start waits for it
	maxBMCAddresses = 16              // of one name
	maxHostName     = 253             // bytes, as in DNS
	maxPort         = 65535
)

// Resolver finds the addresses of a host; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// FirstBMCField is the key of driver_info that may hold the BMC's address before
// all that are configured.
const FirstBMCField = "ipmi_address"

// BMCAddresses returns the addresses of a node's BMC by its driver_info, up to 16, as a
// record takes them: of ipmi_address or else of the first of fields that is not empty. A
// name is resolved within 3 seconds. None and no error means that the node has no
// BMC that could identify it: behind an IPMI bridge the address is another
// machine's. An error says why an address that is there is of no use: a *Problem
// if it can never be read; any other is a warning, as in the original's last
// line, and the node may still be found by its MACs.
func BMCAddresses(ctx context.Context, r Resolver, node string, info map[string]any, fields []string) ([]string,
	error) {
	if Bridged(info) {
		return nil, nil
	}
	field, value := bmcField(info, fields)
	if field == "" {
		return nil, nil
	}
	host, ok := bmcHost(value)
	if !ok {
		return nil, document.Failed(
			"driver_info.%s of node %s is no address of a BMC: want HOST, HOST:PORT, [IPV6]:PORT or a URL", field, node)
	}
	ips, err := resolve(ctx, r, host)
	if err != nil {
		return nil, fmt.Errorf("driver_info.%s of node %s: %w", field, node, err)
	}
	var addresses []string
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() && len(addresses) < maxBMCAddresses {
			addresses = addAddress(addresses, ip.String())
		}
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("driver_info.%s of node %s: %s is an address of the host itself, not of a BMC", field, node,
			host)
	}
	return addresses, nil
}

// Bridged reports whether a node's BMC is behind an IPMI bridge.
func Bridged(info map[string]any) bool {
	bridging, there := info["ipmi_bridging"]
	return there && bridging != "no" && bridging != nil
}

// bmcField returns the first field that is not empty, "" if there is none.
func bmcField(info map[string]any, fields []string) (field string, value any) {
	for _, field := range append([]string{FirstBMCField}, fields...) {
		if value := info[field]; value != nil && value != "" {
			return field, value
		}
	}
	return "", nil
}

// bmcHost returns the host in the address of a BMC, in any form that Ironic's
// drivers take: an IP address or a name, alone, with a port or in a URL. An IPv6
// address may stand in brackets, and must before a port.
func bmcHost(value any) (host string, ok bool) {
	text, ok := value.(string)
	if !ok {
		return "", false
	}
	text = strings.TrimSpace(text)
	if _, err := netip.ParseAddr(text); err == nil {
		return text, true
	}
	if !strings.Contains(text, "//") {
		text = "//" + text // HOST:PORT is no scheme
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", false
	}
	if port, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || port == 0 || port > maxPort) {
		return "", false
	}
	host = u.Hostname()
	_, err = netip.ParseAddr(host)
	return host, err == nil || isHostName(host)
}

// isHostName reports whether a resolver can be asked for a host; letters of other
// alphabets are left to it.
func isHostName(host string) bool {
	return host != "" && len(host) <= maxHostName && !strings.ContainsFunc(host, func(c rune) bool {
		return c < utf8.RuneSelf &&
			!('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-._", c))
	})
}

func resolve(ctx context.Context, r Resolver, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ips, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("resolve %q: %w", host, err)
	}
	return ips, nil
}
