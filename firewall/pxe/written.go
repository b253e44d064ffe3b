package pxe

import (
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReadConfig is what a text of Config, of this version or of v0.2.0, says of the server: its Root, Batch (50 stands
// for fewer and 900 for more), Lease, Router, Pools and LoaderURLs.
func ReadConfig(text string) (s Server) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		words := strings.Split(value, ",")
		last := words[len(words)-1]
		switch {
		case key == "tftp-root":
			s.Root = value
		case key == "tftp-max":
			s.Batch, _ = strconv.Atoi(value) // 0 is a text of others
		case key == "dhcp-range":
			s.Lease, _ = time.ParseDuration(last)
			if strings.HasPrefix(words[0], "set:") {
				words = words[1:]
			}
			if len(words) > 1 {
				if p, err := ParsePool(words[0] + "-" + words[1]); err == nil {
					s.Pools = append(s.Pools, p)
				}
			}
		case strings.Contains(value, "option:router,"):
			s.Router, _ = netip.ParseAddr(last)
		case strings.Contains(value, "tag:http-") && strings.Contains(last, "://"):
			if directory := strings.TrimSuffix(last, "/"+path.Base(last)); !slices.Contains(s.LoaderURLs, directory) {
				s.LoaderURLs = append(s.LoaderURLs, directory)
			}
		}
	}
	return s
}

// ReadScript is what a text of Script, of this version or of v0.2.0, has iPXE boot. lists: the version that wrote it
// knew lists of callback URLs.
func ReadScript(text string) (b Boot, lists bool) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(strings.TrimSpace(line), " || goto failed")
		if rest, ok := strings.CutPrefix(line, "initrd --timeout 30000 --name ramdisk "); ok {
			b.Ramdisk = rest
		}
		rest, ok := strings.CutPrefix(line, "kernel --timeout 30000 ")
		if !ok {
			continue
		}
		own, arguments, _ := strings.Cut(rest, lastOwnArgument)
		b.Arguments = strings.TrimSpace(arguments)
		for i, word := range strings.Fields(own) {
			if i == 0 {
				b.Kernel = word
			}
			if list, ok := strings.CutPrefix(word, callbackArgument); ok {
				b.Callback = list
			}
		}
	}
	return b, strings.Contains(text, "\n# first of these URLs ")
}
