package doctor

import (
	"net/url"
	"slices"
	"strings"
)

// Script is what an iPXE script fetches, and where its ramdisk reports.
type Script struct {
	Kernels  []string // as they are written: names or URLs
	Ramdisks []string
	Callback string
}

// IsScript reports whether a file begins as scripts of iPXE do.
func IsScript(text []byte) bool { return strings.HasPrefix(string(text), "#!ipxe") }

// ReadScript reads an iPXE script.
func ReadScript(text []byte) Script {
	var s Script
	for line := range strings.Lines(string(text)) {
		command, _, _ := strings.Cut(line, "||")
		words := strings.Fields(command)
		if len(words) == 0 {
			continue
		}
		verb, words := words[0], words[1:]
		for len(words) > 0 && strings.HasPrefix(words[0], "-") {
			n := 1
			if slices.Contains([]string{"--name", "-n", "--timeout", "-t"}, words[0]) {
				n = 2 // these options have a value of their own
			}
			words = words[min(n, len(words)):]
		}
		if len(words) == 0 {
			continue
		}
		file := words[0]
		switch verb {
		case "kernel", "chain", "imgfetch", "imgselect":
			s.Kernels = appendOnce(s.Kernels, file)
		case "initrd", "module":
			s.Ramdisks = appendOnce(s.Ramdisks, file)
		}
		for _, word := range words[1:] {
			if callback, ok := strings.CutPrefix(word, "ipa-inspection-callback-url="); ok {
				s.Callback = callback
			}
		}
	}
	return s
}

func appendOnce(list []string, word string) []string {
	if slices.Contains(list, word) {
		return list
	}
	return append(list, word)
}

// Resolve returns the URL of a file that a script at base names, and false for
// one that iPXE only knows when it runs.
func Resolve(base, name string) (string, bool) {
	if strings.Contains(name, "${") {
		return "", false
	}
	b, err := url.Parse(base)
	if err != nil {
		return "", false
	}
	u, err := b.Parse(name)
	if err != nil {
		return "", false
	}
	return u.String(), true
}
